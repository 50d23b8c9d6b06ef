//! Nodes: what requests make of the key, and how they lose their vote and get it back.

use std::{cell::RefCell, collections::HashMap, sync::Arc, time::Duration};

use redlock_protocol::{
    BlockRequest, LONGEST_ROUND, Mode, Owner, Record, Reply, Request, Token, model::Model,
    rules::quarantine::Readings,
};

use super::{CLIENTS, Move, Mutant, Role, Sharing, State, Take};
use crate::{
    search::Step,
    server::{ADMISSION, NOW, voting},
};

/// For how long the key of each client still lives; zero is none.
pub(super) type Keys = [u8; CLIENTS];

/// A server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Node {
    pub(super) keys: Keys,
    /// Whose rounds have its vote, a bit for each client.
    pub(super) votes: u8,
    /// For how long it remembers to have granted a lease that is not the longest, and the longest.
    pub(super) knows: [u8; 2],
    /// How long ago its loss was noted, and one more; zero if it votes.
    pub(super) lost: u8,
}

/// What a node is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Question {
    Acquire,
    Extend,
    PutBack,
    Release,
}

/// What the protocol's model of a node replies. There are few different questions, so each is put once.
#[derive(Clone, Debug, Default)]
pub(super) struct Server(RefCell<HashMap<Asked, Replied>>);

/// Which client asks, and of which keys.
type Asked = (Keys, usize, Question);

/// What it makes of the keys, and whether it has done what was asked.
type Replied = (Keys, bool);

const TICK: Duration = Duration::from_secs(1);

impl Node {
    pub(super) const fn has_vote(&self) -> bool {
        self.lost == 0
    }

    /// Time goes on. Nothing differs for losses that are older than `oldest`.
    pub(super) fn tick(&mut self, oldest: u8) {
        for ticks in self.keys.iter_mut().chain(&mut self.knows) {
            *ticks = ticks.saturating_sub(1);
        }
        if self.lost > 0 {
            self.lost = (self.lost + 1).min(oldest + 1);
        }
    }
}

impl<const N: usize> Sharing<N> {
    /// What a node does that votes. False if it refuses.
    pub(super) fn carry_out(&self, node: &mut Node, client: usize, question: Question) -> bool {
        let before = node.keys;
        let asked = (before, client, question);
        let known = self.server.0.borrow().get(&asked).copied();
        let (keys, is_done) = known.unwrap_or_else(|| {
            let replied = self.ask_model(before, client, question);
            self.server.0.borrow_mut().insert(asked, replied);
            replied
        });
        node.keys = keys;
        if is_done && question != Question::Release {
            self.note_lease(node, client);
        }
        let first = node.keys.into_iter().filter(|key| *key > 0).min();
        match self.mutant {
            Some(Mutant::ExpireWithTheFirst) => {
                let first = first.unwrap_or(0);
                node.keys = node.keys.map(|key| key.min(first));
            }
            Some(Mutant::ReleaseOfAll) if question == Question::Release && is_done => {
                node.keys = Keys::default();
            }
            _ => {}
        }
        is_done
    }

    fn ask_model(&self, keys: Keys, client: usize, question: Question) -> Replied {
        let mut model = voting();
        for (other, &key) in keys.iter().enumerate().filter(|(_, key)| **key > 0) {
            let put_back = self.request(other, Question::PutBack, TICK * u32::from(key));
            assert_eq!(model.run(&put_back, NOW), Reply::PutBack);
        }
        assert_eq!(self.keys_of(&model), keys);
        let lease = TICK * u32::from(self.lease(client));
        let reply = model.run(&self.request(client, question, lease), NOW);
        let is_done = matches!(
            reply,
            Reply::Granted { .. } | Reply::Extended { .. } | Reply::PutBack | Reply::Deleted
        );
        (self.keys_of(&model), is_done)
    }

    fn keys_of(&self, model: &Model) -> Keys {
        let mut keys = Keys::default();
        for part in model.parts("lock", NOW.now) {
            let (owner, expires) = part.owner.zip(part.expires).unwrap();
            let lives = expires.since(NOW.now);
            keys[owner.0 as usize - 1] = (lives.as_secs_f64() / TICK.as_secs_f64()).round() as u8;
        }
        keys
    }

    fn request(&self, client: usize, question: Question, ttl: Duration) -> Request {
        let key: Arc<str> = "lock".into();
        let owner = Owner(client as u128 + 1);
        let admission = ADMISSION;
        let mode = match self.role(client) {
            Role::Reads => Mode::Shared,
            Role::Writes => Mode::Exclusive,
        };
        match question {
            Question::Acquire => Request::Acquire {
                key,
                owner,
                mode,
                ttl,
                block: BlockRequest {
                    proposal: Token(1),
                    length: 1,
                },
                admission,
                ticket: None,
            },
            Question::Extend => Request::Extend {
                key,
                owner,
                mode,
                ttl,
                spare: Duration::ZERO,
                block: None,
                admission,
            },
            Question::PutBack => Request::PutBack {
                key,
                owner,
                mode,
                ttl,
                admission,
            },
            Question::Release => Request::Release {
                key,
                owner,
                mode,
                keep: None,
                leaves: false,
            },
        }
    }

    /// It is remembered for as long as the longest key lives.
    fn note_lease(&self, node: &mut Node, client: usize) {
        if self.role(client) == Role::Reads && self.has(Mutant::ReadersNotNoted) {
            return;
        }
        let is_longest = self.lease(client) == self.longest();
        node.knows[usize::from(is_longest)] = self.longest();
    }

    fn longest_known(&self, node: &Node) -> u8 {
        let shorter = self.clients.iter().map(|&(_, lease)| lease);
        let shorter = shorter.filter(|&lease| lease < self.longest()).max();
        match node.knows {
            [0, 0] => 0,
            [_, 0] => shorter.unwrap_or(0),
            _ => self.longest(),
        }
    }

    pub(super) fn node(&self, state: &State<N>, node: usize, take: Take<'_, N>) {
        let place = node as u8;
        let mut others = (0..N).filter(|&other| other != node);
        if others.any(|other| state.nodes[other].has_vote()) {
            let mut next = *state;
            let votes = next.nodes[node].votes;
            next.nodes[node] = Node {
                votes,
                lost: 1,
                ..Node::default()
            };
            take(Step::new(Move::Lose { node: place }, next));
        }
        if self.is_over(state, node) {
            let mut next = *state;
            next.nodes[node].lost = 0;
            take(Step::new(Move::Admit { node: place }, next));
        }
    }

    /// The wait of a node that has lost its memory, as the protocol decides. Who lets it in may read as few
    /// of the others as it takes: those that have granted the least.
    fn is_over(&self, state: &State<N>, node: usize) -> bool {
        let Some(age) = state.nodes[node].lost.checked_sub(1) else {
            return false;
        };
        let others = (0..N).filter(|&other| other != node);
        let others = others.map(|other| &state.nodes[other]);
        let known = others.filter(|other| other.has_vote());
        let mut known: Vec<u8> = known.map(|other| self.longest_known(other)).collect();
        known.sort_unstable();
        if age <= self.round {
            known.clear();
        }
        let mut readings = Readings::new(N);
        let mut wait = readings.wait(self.ticks(self.longest()));
        for longest in known {
            readings.add(&Record {
                longest: self.ticks(longest),
                ..Record::default()
            });
            wait = wait.min(readings.wait(self.ticks(self.longest())));
        }
        self.has(Mutant::NoWait) || self.ticks(age) >= wait
    }

    /// In the protocol's time, in which a round has a longest time.
    const fn ticks(&self, ticks: u8) -> Duration {
        LONGEST_ROUND
            .saturating_mul(ticks as u32)
            .checked_div(self.round as u32)
            .unwrap()
    }
}
