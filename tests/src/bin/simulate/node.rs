//! A Redis server: keys with an expiry, counters, the marker of its admission, and the scripts.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use crate::{
    MILLI,
    checker::Tag,
    clock::Clock,
    network::Arrival,
    plan::KEYS,
    protocol::{Facts, Fault, Owner, Reply, Request, Token},
};

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) clock: Clock,
    /// The sum of its clock's steps back.
    pub(crate) stepped_back: u64,
    /// Drops a key at the very millisecond of its expiry, and not the one after as Redis does.
    strict: bool,
    /// By how much its clock is ahead of itself without its steps.
    ahead: u64,
    memory: Memory,
    /// What it has on disk.
    snapshot: Memory,
    /// Another one after each restart that loses memory.
    process: u64,
    /// By its own clock.
    booted: u64,
    was_flushed: bool,
    /// The connections that have read each key, and are told when it changes.
    readers: [Vec<usize>; KEYS],
    /// What those of them have to be told that the last request was not from.
    pub(crate) told: Vec<(usize, &'static str)>,
    /// It has voted without interruption, or with counters that make up for what it has lost.
    pub(crate) remembers: bool,
    /// The true time at which it last lost its memory.
    pub(crate) lost_at: u64,
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

/// What Redis holds.
#[derive(Clone, Debug, Default)]
struct Memory {
    keys: [Option<Key>; KEYS],
    counters: [u64; KEYS],
    /// Somebody waits for the key until then, in milliseconds of this node.
    notes: [u64; KEYS],
    floor: u64,
    /// The process that may vote.
    run: Option<u64>,
    pending: Option<u64>,
    /// In milliseconds of this node.
    quarantined_until: u64,
}

/// What is left of a node's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    /// What it had on disk.
    Snapshot,
}

const SCRIPTS: usize = 6;

/// The names of keys.
pub(crate) const NAMES: [&str; KEYS] = ["a", "b"];

/// How long a note is believed that somebody waits, in milliseconds: as in `acquire.lua`.
const NOTE: u64 = 1_000;

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
    /// Made a key.
    Made,
    /// Deleted or extended the key of this attempt.
    Touched(Tag),
    /// Granted the key of this attempt once more, and left it as it is.
    Kept(Tag),
}

impl Node {
    pub(crate) fn new(clock: Clock, strict: bool) -> Self {
        Self {
            clock,
            stepped_back: 0,
            strict,
            ahead: 0,
            memory: Memory::default(),
            snapshot: Memory::default(),
            process: 0,
            booted: 0,
            was_flushed: false,
            readers: Default::default(),
            told: Vec::new(),
            remembers: true,
            lost_at: 0,
            scripts: [false; SCRIPTS],
            down: false,
            silent_until: 0,
            backlog: VecDeque::new(),
            slow_by: 0,
            slow_until: 0,
            errors: 0,
        }
    }

    /// What a client does on each new connection, and when it asks who the node is.
    pub(crate) const fn load_scripts(&mut self) {
        self.scripts = [true; SCRIPTS];
    }

    pub(crate) const fn flush_scripts(&mut self) {
        self.scripts = [false; SCRIPTS];
    }

    /// Ends the process. The next one's memory is what is left of this one's.
    pub(crate) fn restart(&mut self, left: Left, at: u64) {
        self.memory = match left {
            Left::Nothing => Memory::default(),
            Left::Snapshot => self.snapshot.clone(),
        };
        for key in self.memory.keys.iter_mut().flatten() {
            // Its owner may have released it since.
            key.orphan = true;
        }
        self.process += 1;
        self.booted = self.clock.read(at);
        self.was_flushed = false;
        self.lose_memory(at);
    }

    /// `FLUSHALL`: the process, its scripts and connections are the same.
    pub(crate) fn flush(&mut self, at: u64) {
        self.memory = Memory::default();
        self.was_flushed = true;
        self.lose_memory(at);
    }

    fn lose_memory(&mut self, at: u64) {
        self.readers = Default::default();
        self.remembers = false;
        self.lost_at = at;
    }

    /// A step of its clock that leaves it ahead by so much.
    pub(crate) fn set_ahead(&mut self, at: u64, ahead: u64) {
        match ahead.checked_sub(self.ahead) {
            Some(forward) => self.clock.step_forward(at, forward),
            None => {
                self.clock.step_back(at, self.ahead - ahead);
                self.stepped_back = self.stepped_back.max(self.ahead - ahead);
            }
        }
        self.ahead = ahead;
    }

    pub(crate) fn save(&mut self) {
        self.snapshot = self.memory.clone();
    }

    pub(crate) fn votes(&self) -> bool {
        self.memory.run == Some(self.process)
    }

    /// What it tells of itself when a connection is made.
    pub(crate) fn facts(&self, number: usize, at: u64) -> Facts {
        let uptime = self.clock.read(at).saturating_sub(self.booted);
        Facts {
            server: Some(self.identity(number)),
            uptime: Some(Duration::from_nanos(uptime)),
            tells_changes: true,
            ..Facts::default()
        }
    }

    fn identity(&self, number: usize) -> Arc<str> {
        format!("node {number}, process {}", self.process).into()
    }

    pub(crate) fn key(&self, index: usize, at: u64) -> Option<Key> {
        let now = self.clock.millis(at);
        self.memory.keys[index]
            .filter(|key| now < key.expires || !self.strict && now == key.expires)
    }

    pub(crate) fn run(
        &mut self,
        (number, connection): (usize, usize),
        request: &Request,
        (server, with_source): (Option<Arc<str>>, bool),
        tag: Tag,
        at: u64,
    ) -> (Reply, Effect) {
        let identity = self.identity(number);
        if *request == Request::Identify {
            self.load_scripts();
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
                let index = index_of(key);
                self.expire(index, at);
                if !self.readers[index].contains(&connection) {
                    self.readers[index].push(connection);
                }
                let reply = match self.key(index, at) {
                    Some(held) if *owner == Some(held.owner) => Reply::Ours,
                    Some(key) => Reply::Taken {
                        owner: Some(key.owner),
                    },
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
            &Request::Admit {
                quarantine,
                unless_flushed,
                floor,
                ..
            } => {
                let is_needed = !unless_flushed || self.was_flushed;
                let quarantine = if is_needed {
                    quarantine
                } else {
                    Duration::ZERO
                };
                let reply = self.admit(meant, quarantine, floor, at);
                return (reply, Effect::Nothing);
            }
            Request::Top => {
                let top = {
                    let memory = &self.memory;
                    memory.counters.iter().copied().fold(memory.floor, u64::max)
                };
                return (
                    Reply::Top {
                        counter: Token(top),
                    },
                    Effect::Nothing,
                );
            }
            Request::Acquire { .. } | Request::Extend { .. } if !meant || !self.votes() => {
                return (Reply::NotAdmitted, Effect::Nothing);
            }
            _ => {}
        }
        self.expire(index, at);
        let (reply, effect) = self.execute(request, index, tag, at);
        if matches!(effect, Effect::Made | Effect::Touched(_)) {
            self.tell(index, Some(connection));
        }
        (reply, effect)
    }

    /// Redis drops a key that has expired when it is asked for it, and then tells everybody.
    fn expire(&mut self, index: usize, at: u64) {
        let left = self.key(index, at);
        if left.is_none() && self.memory.keys[index].is_some() {
            self.memory.keys[index] = None;
            self.tell(index, None);
        }
    }

    /// Who has read a key is told once, but not of its own changes.
    fn tell(&mut self, index: usize, by: Option<usize>) {
        let readers = self.readers[index].drain(..);
        let others = readers.filter(|&reader| Some(reader) != by);
        self.told
            .extend(others.map(|reader| (reader, NAMES[index])));
    }

    /// As `admit.lua`. A client that means another process starts a quarantine of its own, which
    /// comes to nothing because it will not mean that process again.
    fn admit(&mut self, meant: bool, quarantine: Duration, floor: Option<Token>, at: u64) -> Reply {
        let now = self.clock.millis(at);
        let process = if meant { self.process } else { u64::MAX };
        let memory = &mut self.memory;
        if memory.run == Some(process) {
            return Reply::Admitted;
        }
        if memory.pending != Some(process) {
            memory.pending = Some(process);
            memory.quarantined_until = now + millis(quarantine);
        }
        if now < memory.quarantined_until {
            let remaining = Duration::from_millis(memory.quarantined_until - now);
            return Reply::Quarantined { remaining };
        }
        let Some(floor) = floor else {
            return Reply::Served;
        };
        memory.run = Some(process);
        memory.pending = None;
        memory.floor = floor.0;
        Reply::Admitted
    }

    fn execute(&mut self, request: &Request, index: usize, tag: Tag, at: u64) -> (Reply, Effect) {
        let now = self.clock.millis(at);
        let memory = &mut self.memory;
        let slot = &mut memory.keys[index];
        let counter = &mut memory.counters[index];
        let note = &mut memory.notes[index];
        match (request, slot.as_mut()) {
            (
                &Request::Acquire {
                    owner,
                    handed_over,
                    waits,
                    ..
                },
                Some(held),
            ) if handed_over.is_none() || held.owner != owner => {
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
                    handed_over,
                    ..
                },
                before,
            ) => {
                let was_ours = before.is_some();
                let least = now + millis(ttl);
                let most = least + millis(handed_over.unwrap_or_default());
                let effect = match before {
                    Some(held) if held.expires >= least => Effect::Kept(held.tag),
                    Some(held) => {
                        held.expires = most;
                        Effect::Touched(held.tag)
                    }
                    None => {
                        *slot = Some(Key {
                            owner,
                            expires: least,
                            tag,
                            orphan: false,
                        });
                        Effect::Made
                    }
                };
                *counter = ((*counter).max(memory.floor) + 1).max(proposal.0);
                let granted = Reply::Granted {
                    counter: Token(*counter),
                    was_ours,
                    awaited: now < *note,
                };
                (granted, effect)
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
        if let Some(key) = &mut self.memory.keys[index] {
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
