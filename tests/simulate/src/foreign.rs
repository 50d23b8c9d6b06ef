//! Clients of another library: `SET NX PX` on all nodes at once, compare and delete, and a new attempt
//! after a random pause. They know nothing of tokens, queues, markers and quarantines.

use redlock_protocol::{Instant, Mode, SectionId, majority};

use crate::{
    MICRO, MILLI,
    agenda::Happening,
    checker::{Belief, Rule},
    clock::Clock,
    draws::Draw,
    plan::{Plan, nanos},
    trace,
    world::{Phase, World},
};

/// How long one waits for the nodes.
const PATIENCE: u64 = 20 * MILLI;

/// Their numbers among those who hold locks come after those of our processes.
pub(crate) const FIRST: usize = 1_000;

#[derive(Debug, Default)]
pub(crate) struct Foreign {
    pub(crate) clock: Clock,
    stage: Stage,
    attempt: u64,
    key: usize,
    /// `None` if the key is to last until it is deleted.
    ttl: Option<u64>,
    /// By its clock.
    began: u64,
    granted: usize,
    refused: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Idle,
    Asking,
    Holding,
}

/// What it says to a node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    Set { ttl: Option<u64> },
    Delete { is_certain: bool },
}

/// On its way to a node, or back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Letter {
    foreign: usize,
    attempt: u64,
    node: usize,
    key: usize,
    word: Word,
}

impl World {
    pub(crate) fn start_foreign(&mut self) {
        for foreign in 0..self.plan.fleet.foreign {
            let clock = Plan::clock(&mut self.random);
            self.foreign.push(Foreign {
                clock,
                ..Foreign::default()
            });
            self.foreign_later(foreign, MILLI);
        }
    }

    fn foreign_later(&mut self, foreign: usize, at_most: u64) {
        let attempt = self.foreign[foreign].attempt;
        let after = 1 + self.random.below(at_most);
        let happening = Happening::ForeignTurn { foreign, attempt };
        self.agenda.at(self.now + after, happening);
    }

    /// It goes on: asks, gives up asking, or lets go.
    pub(crate) fn foreign_turn(&mut self, foreign: usize, attempt: u64) {
        let one = &self.foreign[foreign];
        if one.attempt != attempt {
            return;
        }
        match one.stage {
            Stage::Idle if self.phase == Phase::Faulty => self.foreign_ask(foreign),
            Stage::Idle => {}
            Stage::Asking | Stage::Holding => self.foreign_end(foreign),
        }
    }

    fn foreign_ask(&mut self, foreign: usize) {
        let key = self.random.index(self.plan.fleet.keys);
        let lease = self.plan.lease;
        let ttl = self.random.pick(&[lease, lease, lease / 4]);
        // Now and then a lock that is held until somebody deletes it.
        let ttl = (!self.random.chance(50)).then_some(ttl.max(10 * MILLI));
        let one = &mut self.foreign[foreign];
        one.attempt += 1;
        one.stage = Stage::Asking;
        one.key = key;
        one.ttl = ttl;
        one.began = one.clock.read(self.now);
        one.granted = 0;
        one.refused = 0;
        trace!(self, "foreign {foreign} asks for key {key} and {ttl:?}");
        self.foreign_send(foreign, Word::Set { ttl });
        self.foreign_later(foreign, PATIENCE);
    }

    fn foreign_send(&mut self, foreign: usize, word: Word) {
        let Foreign { attempt, key, .. } = self.foreign[foreign];
        for node in 0..self.nodes.len() {
            let letter = Letter {
                foreign,
                attempt,
                node,
                key,
                word,
            };
            self.foreign_travels(letter, Happening::ForeignAtNode);
        }
    }

    fn foreign_travels(&mut self, letter: Letter, arrive: impl Fn(Letter) -> Happening) {
        let late = self.plan.late > 0 && self.random.chance(self.plan.late);
        let late_by = if late { self.plan.late_by } else { 0 };
        let after = 100 * MICRO + self.random.below(400 * MICRO) + self.random.below(late_by);
        self.agenda.at(self.now + after, arrive(letter));
    }

    pub(crate) fn foreign_at_node(&mut self, letter: Letter) {
        let node = &mut self.nodes[letter.node];
        let wait = match letter.word {
            Word::Delete { is_certain: true } if node.down => 5 * MILLI,
            _ if node.down || node.sickness.is_for_good() => return,
            _ => node.silent_until.saturating_sub(self.now),
        };
        if wait > 0 {
            let again = Happening::ForeignAtNode(letter);
            return self.agenda.at(self.now + wait, again);
        }
        if matches!(letter.word, Word::Set { ttl: None })
            && self.foreign[letter.foreign].attempt != letter.attempt
        {
            // Its deletion has been here: it would stay for ever.
            return;
        }
        let node = &mut self.nodes[letter.node];
        let value = format!("{}:{}", letter.foreign, letter.attempt);
        match letter.word {
            Word::Set { ttl } => {
                let ttl = ttl.map(nanos);
                let is_set = node.set_foreign(letter.key, &value, ttl, self.now);
                let reply = move |letter| Happening::ForeignReply { letter, is_set };
                self.foreign_travels(letter, reply);
            }
            Word::Delete { .. } => {
                if node.delete_foreign(letter.key, &value, self.now) {
                    // Up to now it was in the way of everybody.
                    self.traffic[letter.key].vanished = self.now;
                }
            }
        }
        self.vanished(letter.node);
        self.tell_readers(letter.node);
        self.on_keys_changed(letter.key);
    }

    pub(crate) fn foreign_reply(&mut self, letter: Letter, is_set: bool) {
        let foreign = letter.foreign;
        let nodes = self.nodes.len();
        let one = &mut self.foreign[foreign];
        if one.attempt != letter.attempt || one.stage != Stage::Asking {
            return;
        }
        one.granted += usize::from(is_set);
        one.refused += usize::from(!is_set);
        if one.refused > nodes - majority(nodes) {
            return self.foreign_end(foreign);
        }
        if one.granted < majority(nodes) {
            return;
        }
        // As most of them reckon: 1 % and 2 ms for the drift of clocks.
        let valid = |ttl| ttl - ttl / 100 - 2 * MILLI;
        let valid = one.ttl.map_or(u64::MAX / 2, valid);
        let deadline = Instant::from_nanos(one.began.saturating_add(valid));
        let now = one.clock.read(self.now);
        if now >= deadline.as_nanos() {
            return self.foreign_end(foreign);
        }
        one.stage = Stage::Holding;
        let key = one.key;
        let left = deadline.as_nanos() - now;
        trace!(self, "foreign {foreign} holds key {key}");
        self.tally.foreign += 1;
        self.believe(
            key,
            Belief {
                client: FIRST + foreign,
                section: SectionId(letter.attempt),
                mode: Mode::Exclusive,
                is_careless: false,
                deadline,
                since: self.now,
            },
        );
        self.foreign_later(foreign, left.min(self.plan.habits.hold_longest + MILLI));
    }

    /// It lets go, or has not got the lock: it deletes its keys, and tries again after a while.
    fn foreign_end(&mut self, foreign: usize) {
        let Foreign { key, attempt, .. } = self.foreign[foreign];
        let is_certain = self.foreign[foreign].ttl.is_none();
        if self.foreign[foreign].stage == Stage::Holding {
            trace!(self, "foreign {foreign} lets go of key {key}");
            self.disbelieve(key, FIRST + foreign, SectionId(attempt));
        }
        self.foreign_send(foreign, Word::Delete { is_certain });
        let one = &mut self.foreign[foreign];
        one.stage = Stage::Idle;
        one.attempt += 1;
        let pause = self.random.pick(&[5 * MILLI, 50 * MILLI]);
        self.foreign_later(foreign, pause);
    }

    // ---- belief, of ours as well

    /// It uses nodes that may have forgotten what they granted.
    pub(crate) fn is_careless(&self, client: usize) -> bool {
        let traits = self.clients.get(client).map(|client| client.traits);
        self.plan.draws.has(Draw::FreshLosses) && traits.is_some_and(|traits| traits.assume_fresh)
    }

    pub(crate) fn believe(&mut self, key: usize, belief: Belief) {
        let (clients, foreign) = (&self.clients, &self.foreign);
        let clock = |client: usize| match client.checked_sub(FIRST) {
            Some(place) => &foreign[place].clock,
            None => &clients[client].clock,
        };
        let other = self.checker.believe(key, belief, clock);
        if let Some(other) = other {
            let what = format!("{belief:?} and {other:?} hold key {key}");
            self.violation(Rule::Exclusion, what);
        }
        self.check_permits();
    }

    pub(crate) fn disbelieve(&mut self, key: usize, client: usize, section: SectionId) {
        self.checker.disbelieve(key, client, section);
        self.on_idle(key);
    }
}
