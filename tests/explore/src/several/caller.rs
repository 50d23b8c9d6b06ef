//! The caller of a section with several keys: the protocol's own `Compound`, without its clock.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use redlock_protocol::{
    Answer, Cause, Instant, LockParams, Loss, Refusal, Release, Token,
    compound::{self, Compound, Part, Word},
};

use super::{Move, Mutant, Several, State, Take, keys::Section};

const NOW: Instant = Instant::from_nanos(1_000_000_000_000);

const MILLISECOND: Duration = Duration::from_millis(1);

const LEASE: Duration = Duration::from_secs(1_000);

/// How long it has patience makes no difference here: it ends at any time.
const FAILURES: u32 = 0;

static NAMES: LazyLock<[Arc<str>; 3]> = LazyLock::new(|| ["a".into(), "b".into(), "c".into()]);

/// A section with several keys, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Caller<const K: usize> {
    pub(super) phase: Phase,
    pub(super) parts: [Stage; K],
    is_extending: bool,
    raises: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Phase {
    #[default]
    None,
    Asking,
    /// For the key that is asked for.
    Waiting,
    Held,
    Over,
    Ending,
}

/// How far it is with one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Stage {
    #[default]
    Idle,
    Asked,
    Held {
        token: u8,
        reach: u8,
        is_asked: bool,
    },
}

impl<const K: usize> Default for Caller<K> {
    fn default() -> Self {
        Self {
            phase: Phase::None,
            parts: [Stage::Idle; K],
            is_extending: false,
            raises: 0,
        }
    }
}

impl<const K: usize> Caller<K> {
    pub(super) fn is_there(&self) -> bool {
        self.phase != Phase::None
    }

    pub(super) fn holds(&self) -> bool {
        self.phase == Phase::Held
    }

    pub(super) fn waits_for(&self) -> Option<usize> {
        let is_asked = |part: &Stage| matches!(part, Stage::Asked);
        let asked = self.parts.iter().position(is_asked);
        asked.filter(|_| self.phase == Phase::Waiting)
    }

    pub(super) fn has_any(&self) -> bool {
        let is_held = |part: &Stage| matches!(part, Stage::Held { .. });
        self.parts.iter().any(is_held)
    }

    fn of(compound: &Compound, keys: &[usize]) -> Self {
        let phase = match compound.state {
            compound::State::Asking => Phase::Asking,
            compound::State::Waiting => Phase::Waiting,
            compound::State::Held => Phase::Held,
            compound::State::Over => Phase::Over,
            compound::State::Ending => Phase::Ending,
            compound::State::Ended => return Self::default(),
        };
        let mut parts = [Stage::Idle; K];
        for (part, &key) in compound.parts.iter().zip(keys) {
            parts[key] = match part.stage {
                compound::Stage::Idle => Stage::Idle,
                compound::Stage::Asked => Stage::Asked,
                compound::Stage::Held {
                    token,
                    reach,
                    is_asked,
                    ..
                } => Stage::Held {
                    token: token.0 as u8,
                    reach: reach.0 as u8,
                    is_asked,
                },
            };
        }
        Self {
            phase,
            parts,
            is_extending: compound.is_extending,
            raises: compound.raises as u8,
        }
    }

    fn compound(&self, keys: &[usize]) -> Compound {
        let deadline = NOW.after(LEASE);
        let state = match self.phase {
            Phase::None => return Compound::new(names(keys), params(), NOW),
            Phase::Asking => compound::State::Asking,
            Phase::Waiting => compound::State::Waiting,
            Phase::Held => compound::State::Held,
            Phase::Over => compound::State::Over,
            Phase::Ending => compound::State::Ending,
        };
        let part = |&key: &usize| Part {
            key: Arc::clone(&NAMES[key]),
            section: None,
            stage: match self.parts[key] {
                Stage::Idle => compound::Stage::Idle,
                Stage::Asked => compound::Stage::Asked,
                Stage::Held {
                    token,
                    reach,
                    is_asked,
                } => compound::Stage::Held {
                    deadline,
                    token: Token(u64::from(token)),
                    reach: Token(u64::from(reach)),
                    is_asked,
                },
            },
        };
        Compound {
            params: params(),
            asked: NOW,
            parts: keys.iter().map(part).collect(),
            state,
            failures: FAILURES,
            raises: u32::from(self.raises),
            attempts: 0,
            is_extending: self.is_extending,
            told: deadline,
            release: Release::Released,
            steps: Vec::new(),
        }
    }
}

/// What a part has to tell, or the caller.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Begin,
    End { report: bool },
    Extend,
    Granted { key: usize, token: u8, reach: u8 },
    Refused { key: usize },
    TimesOut { key: usize },
    Extended { key: usize, reach: u8 },
    NotExtended { key: usize },
    Over { key: usize },
    Released { key: usize },
}

impl<const P: usize, const K: usize> Several<P, K> {
    /// What the caller can do by itself.
    pub(super) fn caller(&self, state: &State<P, K>, process: usize, take: Take<'_, P, K>) {
        let caller = &state.callers[process];
        let place = process as u8;
        let mut can = |by, event| {
            let mut next = *state;
            let wrong = self.tell(&mut next, process, event);
            take(self.checked(by, next, wrong));
        };
        match caller.phase {
            Phase::None => can(Move::Begin { process: place }, Event::Begin),
            Phase::Held if self.extends && !caller.is_extending => {
                can(Move::Extend { process: place }, Event::Extend);
            }
            _ => {}
        }
        if caller.is_there() && caller.phase != Phase::Ending {
            let reports = [false, true]
                .into_iter()
                .take(1 + usize::from(self.extends && caller.holds()));
            for report in reports {
                can(
                    Move::End {
                        process: place,
                        report,
                    },
                    Event::End { report },
                );
            }
        }
    }

    /// Hands an event to the section, and does what that wants done.
    pub(super) fn tell(
        &self,
        state: &mut State<P, K>,
        process: usize,
        event: Event,
    ) -> Option<String> {
        let wanted: Vec<usize> = (0..K)
            .filter(|key| self.wants[process] >> key & 1 == 1)
            .collect();
        let before = state.callers[process];
        let mut compound = before.compound(&wanted);
        match event {
            Event::Begin => {}
            Event::End { report } => compound.on_end(report, NOW),
            Event::Extend => compound.on_extend(),
            Event::Granted { key, .. }
            | Event::Refused { key }
            | Event::TimesOut { key }
            | Event::Extended { key, .. }
            | Event::NotExtended { key }
            | Event::Over { key }
            | Event::Released { key } => {
                let part = wanted.iter().position(|&wanted| wanted == key)?;
                let (answer, reach, now) = answer(event);
                compound.on_answer(part, answer, reach, now);
            }
        }
        let steps = compound.take_steps();
        state.callers[process] = Caller::of(&compound, &wanted);
        let mut wrong = None;
        for step in steps {
            let flaw = self.carry_out(state, process, (&wanted, step), before.phase);
            wrong = wrong.or(flaw);
        }
        wrong
    }

    /// It does not wait, or has other keys and no more patience.
    pub(super) fn may_be_refused(&self, state: &State<P, K>, process: usize, waits: bool) -> bool {
        !waits || state.callers[process].has_any() && !self.has(Mutant::WaitsForAll)
    }

    fn carry_out(
        &self,
        state: &mut State<P, K>,
        process: usize,
        (wanted, step): (&[usize], compound::Step),
        before: Phase,
    ) -> Option<String> {
        match step {
            compound::Step::Answer(Answer::Granted { token, .. }) => {
                let token = match state.callers[process].parts[wanted[0]] {
                    Stage::Held { token, .. } if self.has(Mutant::TokenOfTheFirst) => token,
                    _ => token.0 as u8,
                };
                let rises = wanted.iter().all(|&key| token > state.given[key]);
                for &key in wanted {
                    state.given[key] = state.given[key].max(token);
                }
                (!rises).then(|| "a token is not above all earlier ones".to_owned())
            }
            compound::Step::Answer(_) => None,
            compound::Step::Ask { part, params } => {
                state.keys[process][wanted[part]].section = Section::Asked {
                    waits: params.wait > Duration::ZERO || self.has(Mutant::WaitsForAll),
                };
                None
            }
            compound::Step::Tell { part, what } => {
                let waits = state.callers[process].waits_for().is_some();
                let is_kept = match self.mutant {
                    Some(Mutant::KeptWhileWaiting) => waits,
                    Some(Mutant::OneKept) => before == Phase::Held && part == 0,
                    _ => false,
                };
                if !(matches!(what, Word::End { .. }) && is_kept) {
                    let key = wanted[part];
                    self.tell_key(&mut state.keys[process][key], what);
                    // It is kept for the next section.
                    if !self.single && !state.keys[process][key].is_held() {
                        state.end_turn(process, key);
                    }
                }
                None
            }
        }
    }
}

fn answer(event: Event) -> (Answer, Option<Token>, Instant) {
    let deadline = NOW.after(LEASE);
    let token = |number| Token(u64::from(number));
    let verdicts = Vec::new();
    let refusal = Refusal {
        cause: Cause::Contended { retry_after: None },
        verdicts: Vec::new(),
        key: None,
        attempts: 0,
    };
    match event {
        Event::Granted {
            token: number,
            reach,
            ..
        } => {
            let (token, attempts) = (token(number), 0);
            let granted = Answer::Granted {
                deadline,
                token,
                attempts,
            };
            (granted, Some(Token(u64::from(reach))), NOW)
        }
        Event::TimesOut { .. } => (Answer::Refused(refusal), None, NOW.after(params().wait)),
        Event::Extended { reach, .. } => (Answer::Extended { deadline }, Some(token(reach)), NOW),
        Event::NotExtended { .. } => (Answer::NotExtended { verdicts }, None, NOW),
        Event::Over { .. } => (Answer::Over(Loss::Lost { verdicts }), None, NOW),
        Event::Released { .. } => (Answer::Released(Release::Released), None, NOW),
        _ => (Answer::Refused(refusal), None, NOW),
    }
}

fn params() -> LockParams {
    LockParams {
        wait: 4 * MILLISECOND * 1_000,
        ..LockParams::of(LEASE)
    }
}

fn names(keys: &[usize]) -> Vec<Arc<str>> {
    keys.iter().map(|&key| Arc::clone(&NAMES[key])).collect()
}
