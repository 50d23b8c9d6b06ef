//! A Redis server: keys with an expiry, counters, the marker of its admission, and the scripts.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use crate::{
    MILLI,
    checker::Tag,
    clock::Clock,
    network::Arrival,
    plan::KEYS,
    protocol::{Fault, Owner, Reply, Request, Token},
};

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) clock: Clock,
    /// The sum of its clock's steps back.
    pub(crate) stepped_back: u64,
    /// Drops a key at the very millisecond of its expiry, and not the one after as Redis does.
    strict: bool,
    keys: [Option<Key>; KEYS],
    counters: [u64; KEYS],
    /// Somebody waits for the key until then, in milliseconds of this node.
    notes: [u64; KEYS],
    floor: u64,
    /// Another one after each restart that loses memory.
    process: u64,
    /// The process that may vote.
    run: Option<u64>,
    pending: Option<u64>,
    /// In milliseconds of this node.
    quarantined_until: u64,
    /// Which of the scripts its cache holds.
    scripts: [bool; SCRIPTS],
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

const SCRIPTS: usize = 6;

/// How long a note is believed that somebody waits, in milliseconds: as in `acquire.lua`.
const NOTE: u64 = 250;

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
    /// Made a key, in the place of this attempt's.
    Made {
        replaced: Option<Tag>,
    },
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
            counters: [0; KEYS],
            notes: [0; KEYS],
            floor: 0,
            process: 0,
            run: None,
            pending: None,
            quarantined_until: 0,
            scripts: [false; SCRIPTS],
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
        self.scripts = [true; SCRIPTS];
    }

    pub(crate) const fn flush_scripts(&mut self) {
        self.scripts = [false; SCRIPTS];
    }

    /// A new process with nothing in memory.
    pub(crate) const fn forget_all(&mut self) {
        self.keys = [None; KEYS];
        self.counters = [0; KEYS];
        self.notes = [0; KEYS];
        self.floor = 0;
        self.process += 1;
        self.run = None;
        self.pending = None;
    }

    pub(crate) fn identity(&self, number: usize) -> Arc<str> {
        format!("node {number}, process {}", self.process).into()
    }

    pub(crate) fn key(&self, index: usize, at: u64) -> Option<Key> {
        let now = self.clock.millis(at);
        self.keys[index].filter(|key| now < key.expires || !self.strict && now == key.expires)
    }

    pub(crate) fn run(
        &mut self,
        number: usize,
        request: &Request,
        (server, with_source): (Option<Arc<str>>, bool),
        tag: Tag,
        at: u64,
    ) -> (Reply, Effect) {
        let identity = self.identity(number);
        if *request == Request::Identify {
            let server = Some(identity);
            return (Reply::Identity { server }, Effect::Nothing);
        }
        if self.errors > 0 {
            self.errors -= 1;
            let refused = Fault::Refused("LOADING".into());
            return (Reply::Failed(refused), Effect::Nothing);
        }
        let (script, index) = match request {
            Request::Acquire { key, .. } => (0, index_of(key)),
            Request::Extend { key, .. } => (1, index_of(key)),
            Request::Release { key, .. } => (2, index_of(key)),
            Request::Confirm { key, .. } => (3, index_of(key)),
            Request::Watch { key, owner } => {
                let reply = match self.key(index_of(key), at) {
                    Some(held) if *owner == Some(held.owner) => Reply::Ours,
                    Some(_) => Reply::NotOwner,
                    None => Reply::Free,
                };
                return (reply, Effect::Nothing);
            }
            Request::Admit { .. } => (4, 0),
            Request::Top => (5, 0),
            Request::Identify => unreachable!("answered above"),
        };
        if !self.scripts[script] && !with_source {
            return (Reply::NoScript, Effect::Nothing);
        }
        self.scripts[script] = true;
        // The client's word for the process, which may be out of date.
        let meant = server.as_ref() == Some(&identity);
        match request {
            Request::Admit {
                quarantine, floor, ..
            } => {
                let reply = self.admit(meant, *quarantine, *floor, at);
                return (reply, Effect::Nothing);
            }
            Request::Top => {
                let top = self.counters.iter().copied().fold(self.floor, u64::max);
                return (
                    Reply::Top {
                        counter: Token(top),
                    },
                    Effect::Nothing,
                );
            }
            Request::Acquire { .. } | Request::Extend { .. }
                if !meant || self.run != Some(self.process) =>
            {
                return (Reply::NotAdmitted, Effect::Nothing);
            }
            _ => {}
        }
        self.keys[index] = self.key(index, at);
        self.execute(request, index, tag, at)
    }

    /// As `admit.lua`. A client that means another process starts a quarantine of its own, which
    /// comes to nothing because it will not mean that process again.
    fn admit(&mut self, meant: bool, quarantine: Duration, floor: Option<Token>, at: u64) -> Reply {
        let now = self.clock.millis(at);
        let process = if meant { self.process } else { u64::MAX };
        if self.run == Some(process) {
            return Reply::Admitted;
        }
        if self.pending != Some(process) {
            self.pending = Some(process);
            self.quarantined_until = now + millis(quarantine);
        }
        if now < self.quarantined_until {
            let remaining = Duration::from_millis(self.quarantined_until - now);
            return Reply::Quarantined { remaining };
        }
        let Some(floor) = floor else {
            return Reply::Served;
        };
        self.run = Some(process);
        self.floor = floor.0;
        Reply::Admitted
    }

    fn execute(&mut self, request: &Request, index: usize, tag: Tag, at: u64) -> (Reply, Effect) {
        let now = self.clock.millis(at);
        let slot = &mut self.keys[index];
        let counter = &mut self.counters[index];
        let note = &mut self.notes[index];
        match (request, slot.as_mut()) {
            (
                &Request::Acquire {
                    instead_of, waits, ..
                },
                Some(held),
            ) if instead_of != Some(held.owner) => {
                let remaining = Some(Duration::from_millis(held.expires.saturating_sub(now)));
                if waits {
                    *note = now + NOTE;
                }
                (Reply::Held { remaining }, Effect::Nothing)
            }
            (
                &Request::Acquire {
                    owner,
                    ttl,
                    proposal,
                    ..
                },
                before,
            ) => {
                let replaced = before.map(|before| before.tag);
                *slot = Some(Key {
                    owner,
                    expires: now + millis(ttl),
                    tag,
                    orphan: false,
                });
                *counter = ((*counter).max(self.floor) + 1).max(proposal.0);
                let granted = Reply::Granted {
                    counter: Token(*counter),
                    replaced: replaced.is_some(),
                    awaited: now < *note,
                };
                (granted, Effect::Made { replaced })
            }
            (Request::Confirm { owner, token, .. }, Some(held)) if held.owner == *owner => {
                *counter = (*counter).max(token.0);
                (Reply::Confirmed, Effect::Nothing)
            }
            (Request::Extend { owner, ttl, .. }, Some(held)) if held.owner == *owner => {
                let remaining = Some(Duration::from_millis(held.expires.saturating_sub(now)));
                held.expires = now + millis(*ttl);
                (Reply::Extended { remaining }, Effect::Touched(held.tag))
            }
            (
                Request::Release {
                    owner, catch_up, ..
                },
                held,
            ) => {
                *counter = (*counter).max(catch_up.0);
                match held {
                    Some(held) if held.owner == *owner => {
                        let effect = Effect::Touched(held.tag);
                        *slot = None;
                        (Reply::Deleted, effect)
                    }
                    _ => (Reply::NotOwner, Effect::Nothing),
                }
            }
            _ => (Reply::NotOwner, Effect::Nothing),
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
