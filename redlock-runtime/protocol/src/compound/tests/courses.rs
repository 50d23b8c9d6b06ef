//! Every course that some sections with several keys can take beside each other, by their own code: a key is
//! what one section has at a time, and rounds are as late as they like. Keys are lost, and rounds are in vain,
//! now and then.

use std::collections::BTreeSet;

use super::*;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Tokens of different keys lie apart.
const FIRST: [u64; 3] = [0, 5, 2];

/// One moment.
#[derive(Clone, Debug)]
struct World {
    callers: Vec<Caller>,
    /// The largest number that was taken of each key.
    counters: [u64; 3],
    /// The largest token that was given for each.
    given: [u64; 3],
    /// So often something goes wrong.
    faults: u32,
}

#[derive(Clone, Debug)]
struct Caller {
    compound: Compound,
    /// Which key each part is of.
    keys: Vec<usize>,
    parts: Vec<Stands>,
    has_all: bool,
}

/// What has become of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    Nothing,
    Asks { waits: bool },
    Has { reach: u64, asks: Option<u64> },
    Lost,
}

#[derive(Clone, Copy, Debug)]
enum Move {
    Grant,
    Refuse,
    Extend,
    NotExtend,
    Lose,
    LetGo,
}

impl World {
    fn new(wants: &[&[usize]], is_in_order: bool, faults: u32) -> Self {
        let caller = |keys: &&[usize]| {
            let names = keys.iter().map(|&key| alone(NAMES[key])).collect();
            let params = LockParams {
                wait: LEASE,
                ..LockParams::of(LEASE)
            };
            let compound = Compound::new(names, params, is_in_order, at(0));
            let names = compound.parts.iter().map(|part| &*part.lock.key);
            let key = |name| NAMES.iter().position(|one| *one == name).unwrap();
            Caller {
                keys: names.map(key).collect(),
                parts: vec![Stands::Nothing; keys.len()],
                has_all: false,
                compound,
            }
        };
        let mut world = Self {
            callers: wants.iter().map(caller).collect(),
            counters: FIRST,
            given: [0; 3],
            faults,
        };
        for caller in 0..wants.len() {
            world.carry_out(caller);
        }
        world
    }

    /// Does what a section wants done.
    fn carry_out(&mut self, caller: usize) {
        let Self { callers, given, .. } = self;
        let one = &mut callers[caller];
        for step in one.compound.take_steps() {
            match step {
                Step::Tell(part, Word::Ask(params)) => {
                    assert_eq!(one.parts[part], Stands::Nothing, "it was let go");
                    let waits = params.wait > ONE_ATTEMPT;
                    one.parts[part] = Stands::Asks { waits };
                }
                Step::Tell(part, what) => match (what, &mut one.parts[part]) {
                    (Word::End { .. }, stands) => *stands = Stands::Nothing,
                    (Word::Extend { reach, .. }, Stands::Has { asks, .. }) => *asks = Some(reach.0),
                    _ => {}
                },
                Step::Answer(Answer::Granted { token, .. }) => {
                    one.has_all = true;
                    for (&key, stands) in one.keys.iter().zip(&one.parts) {
                        assert!(matches!(stands, Stands::Has { .. }), "it has all");
                        assert!(given[key] < token.0, "its token is above all before");
                        given[key] = token.0;
                    }
                }
                Step::Answer(Answer::Over(_)) => one.has_all = false,
                Step::Answer(other) => panic!("{other:?}"),
            }
        }
    }

    fn can(&self, caller: usize, part: usize) -> Vec<Move> {
        let one = &self.callers[caller];
        let mut moves = match one.parts[part] {
            Stands::Asks { waits } => {
                let is_free = !self.is_had(one.keys[part]);
                let refuse = (!waits).then_some(Move::Refuse);
                is_free
                    .then_some(Move::Grant)
                    .into_iter()
                    .chain(refuse)
                    .collect()
            }
            Stands::Has { asks: Some(_), .. } => vec![Move::Extend],
            _ => Vec::new(),
        };
        if let Stands::Has { asks, .. } = one.parts[part]
            && self.faults > 0
        {
            moves.push(Move::Lose);
            moves.extend(asks.map(|_| Move::NotExtend));
        }
        let begun = matches!(one.compound.state, State::Held | State::Over);
        if part == 0 && begun {
            moves.push(Move::LetGo);
        }
        moves
    }

    fn is_had(&self, key: usize) -> bool {
        self.callers.iter().any(|one| {
            let mut parts = one.keys.iter().zip(&one.parts);
            parts.any(|(&of, stands)| of == key && matches!(stands, Stands::Has { .. }))
        })
    }

    fn after(&self, caller: usize, part: usize, by: Move) -> Self {
        let mut next = self.clone();
        let one = &mut next.callers[caller];
        let (counter, stands) = (&mut next.counters[one.keys[part]], &mut one.parts[part]);
        let deadline = at(100);
        let verdicts = Vec::new();
        let answer = match by {
            Move::Grant => {
                *counter += 1;
                let (reach, asks) = (*counter, None);
                *stands = Stands::Has { reach, asks };
                let token = Token(*counter);
                Answer::Granted {
                    deadline,
                    token,
                    attempts: 0,
                }
            }
            Move::Refuse => {
                *stands = Stands::Nothing;
                Answer::Refused(Refusal::CONTENDED)
            }
            Move::Extend => {
                if let Stands::Has { reach, asks } = stands {
                    *reach = asks.take().unwrap_or_default().max(*reach);
                    *counter = (*counter).max(*reach);
                }
                Answer::Extended { deadline }
            }
            Move::NotExtend => {
                next.faults -= 1;
                if let Stands::Has { asks, .. } = stands {
                    *asks = None;
                }
                Answer::NotExtended { verdicts }
            }
            Move::Lose => {
                next.faults -= 1;
                *stands = Stands::Lost;
                Answer::Over(Loss::Lost { verdicts })
            }
            Move::LetGo => {
                one.has_all = false;
                one.compound.on_end(false, at(1));
                next.carry_out(caller);
                return next;
            }
        };
        let reach = match *stands {
            Stands::Has { reach, .. } => Some(Token(reach)),
            _ => None,
        };
        one.compound.on_answer(part, answer, reach, at(1));
        next.carry_out(caller);
        next
    }

    fn check(&self) {
        for one in &self.callers {
            let waits = |stands: &Stands| matches!(stands, Stands::Asks { waits: true });
            if let Some(waited) = one.parts.iter().position(waits) {
                let behind = &one.parts[waited + 1..];
                let is_nothing = |stands: &Stands| *stands == Stands::Nothing;
                assert!(behind.iter().all(is_nothing), "nothing behind: {one:?}");
            }
            let has_lost = one.parts.contains(&Stands::Lost);
            assert!(!(one.has_all && has_lost), "it hears of a loss: {one:?}");
        }
    }
}

/// Goes on until nothing can happen any more. No state comes back, so that every course has an end.
fn explore(world: &World, seen: &mut BTreeSet<String>, way: &mut BTreeSet<String>) {
    let state = format!("{world:?}");
    assert!(!way.contains(&state), "for ever: {state}");
    if !seen.insert(state.clone()) {
        return;
    }
    way.insert(state.clone());
    world.check();
    let mut is_over = true;
    for (caller, one) in world.callers.iter().enumerate() {
        for part in 0..one.parts.len() {
            for by in world.can(caller, part) {
                is_over = false;
                explore(&world.after(caller, part, by), seen, way);
            }
        }
    }
    let has_ended = |one: &Caller| one.compound.is_ended();
    assert!(
        !is_over || world.callers.iter().all(has_ended),
        "stuck: {world:?}"
    );
    way.remove(&state);
}

#[test]
fn in_every_course_all_have_had_all_of_their_keys_in_the_end() {
    let courses: [(&[&[usize]], u32); 4] = [
        (&[&[0, 1], &[1, 0]], 2),
        (&[&[0, 1], &[1], &[0]], 1),
        (&[&[0, 1], &[1, 2], &[2, 0]], 0),
        (&[&[0, 1, 2], &[2, 1, 0]], 0),
    ];
    for (wants, faults) in courses {
        for is_in_order in [false, true] {
            let mut seen = BTreeSet::new();
            let world = World::new(wants, is_in_order, faults);
            explore(&world, &mut seen, &mut BTreeSet::new());
        }
    }
}
