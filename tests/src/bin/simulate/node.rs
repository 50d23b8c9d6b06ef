//! A Redis server: keys with an expiry, and the three scripts.

use std::{collections::VecDeque, time::Duration};

use crate::{
    MILLI,
    checker::Tag,
    clock::Clock,
    network::Arrival,
    plan::KEYS,
    protocol::{Fault, Owner, Reply, Request},
};

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) clock: Clock,
    /// The sum of its clock's steps back.
    pub(crate) stepped_back: u64,
    /// Drops a key at the very millisecond of its expiry, and not the one after as Redis does.
    strict: bool,
    keys: [Option<Key>; KEYS],
    /// Which of the three scripts its cache holds.
    scripts: [bool; 3],
    pub(crate) down: bool,
    /// Reads nothing before this time; what arrives waits in the backlog.
    pub(crate) silent_until: u64,
    pub(crate) backlog: VecDeque<Arrival>,
    /// Takes so much longer for every message until then.
    pub(crate) slow_by: u64,
    pub(crate) slow_until: u64,
    /// How many of the next requests are refused with an error.
    pub(crate) errors: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) owner: Owner,
    /// In milliseconds of this node.
    pub(crate) expires: u64,
    /// The attempt that made it.
    pub(crate) tag: Tag,
    /// Made after its owner's release had been here: nobody will come for it.
    pub(crate) orphan: bool,
}

/// What a script did, beyond its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Nothing,
    Made,
    /// Deleted or extended the key of this attempt.
    Touched(Tag),
}

impl Node {
    pub(crate) const fn new(clock: Clock, strict: bool) -> Self {
        Self {
            clock,
            stepped_back: 0,
            strict,
            keys: [None; KEYS],
            scripts: [false; 3],
            down: false,
            silent_until: 0,
            backlog: VecDeque::new(),
            slow_by: 0,
            slow_until: 0,
            errors: 0,
        }
    }

    /// What a client does on each new connection.
    pub(crate) const fn load_scripts(&mut self) {
        self.scripts = [true; 3];
    }

    pub(crate) const fn flush_scripts(&mut self) {
        self.scripts = [false; 3];
    }

    pub(crate) const fn forget_keys(&mut self) {
        self.keys = [None; KEYS];
    }

    pub(crate) fn key(&self, index: usize, at: u64) -> Option<Key> {
        let now = self.clock.millis(at);
        self.keys[index].filter(|key| now < key.expires || !self.strict && now == key.expires)
    }

    pub(crate) fn run(
        &mut self,
        request: &Request,
        with_source: bool,
        tag: Tag,
        at: u64,
    ) -> (Reply, Effect) {
        if self.errors > 0 {
            self.errors -= 1;
            let refused = Fault::Refused("LOADING".into());
            return (Reply::Failed(refused), Effect::Nothing);
        }
        let (script, index) = match request {
            Request::Acquire { key, .. } => (0, index_of(key)),
            Request::Extend { key, .. } => (1, index_of(key)),
            Request::Release { key, .. } => (2, index_of(key)),
        };
        if !self.scripts[script] && !with_source {
            return (Reply::NoScript, Effect::Nothing);
        }
        self.scripts[script] = true;
        self.keys[index] = self.key(index, at);
        self.execute(request, index, tag, at)
    }

    fn execute(&mut self, request: &Request, index: usize, tag: Tag, at: u64) -> (Reply, Effect) {
        let now = self.clock.millis(at);
        let slot = &mut self.keys[index];
        match (request, slot.as_mut()) {
            (Request::Acquire { .. }, Some(held)) => {
                let remaining = Some(Duration::from_millis(held.expires.saturating_sub(now)));
                (Reply::Held { remaining }, Effect::Nothing)
            }
            (&Request::Acquire { owner, ttl, .. }, None) => {
                *slot = Some(Key {
                    owner,
                    expires: now + millis(ttl),
                    tag,
                    orphan: false,
                });
                (Reply::Granted, Effect::Made)
            }
            (Request::Extend { owner, ttl, .. }, Some(held)) if held.owner == *owner => {
                held.expires = now + millis(*ttl);
                (Reply::Extended, Effect::Touched(held.tag))
            }
            (Request::Release { owner, .. }, Some(held)) if held.owner == *owner => {
                let effect = Effect::Touched(held.tag);
                *slot = None;
                (Reply::Deleted, effect)
            }
            (Request::Extend { .. } | Request::Release { .. }, _) => {
                (Reply::NotOwner, Effect::Nothing)
            }
        }
    }

    pub(crate) const fn mark_orphan(&mut self, index: usize) {
        if let Some(key) = &mut self.keys[index] {
            key.orphan = true;
        }
    }
}

/// Keys are named `a`, `b` and so on.
pub(crate) fn index_of(key: &str) -> usize {
    usize::from(key.as_bytes()[0] - b'a')
}

/// As the scripts are called: rounded up.
fn millis(ttl: Duration) -> u64 {
    (ttl.as_nanos() as u64).div_ceil(MILLI)
}
