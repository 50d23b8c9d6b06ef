//! What a node does with a request: the reference for the scripts, in one function.
//!
//! `memory://` nodes, the tests' worlds and the simulation wrap it with their faults; a
//! differential test drives it and the scripts on a real server with the same requests.

mod admission;
mod queue;
mod readers;
#[cfg(test)]
mod tests;
mod vote;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use self::{admission::Loss, queue::Queue, vote::Longest};
use crate::{
    message::{
        AdmissionId, Ahead, LossRecord, Marker, Mode, Owner, Record, Rejection, Reply, Request,
    },
    rules::token::Token,
    time::{Instant, counted},
};

/// When a request is carried out.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// By the clock that keys expire by.
    pub now: Instant,
    /// Microseconds since 1970 by the node's wall clock. On a server both are one clock.
    pub wall_micros: u64,
}

/// One node's memory, and what of the process that has it matters here.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The process, another one after each restart; `None` if it does not tell.
    pub server: Option<Arc<str>>,
    /// No keys have been flushed or swapped away since the process was started.
    pub is_unflushed: bool,
    keys: BTreeMap<Arc<str>, Stored>,
    marker: Option<Marker>,
    loss: Option<Loss>,
    max_ttl: Option<Duration>,
    /// That of another release, if it has one.
    other_format: Option<u64>,
    longest: Option<Longest>,
    /// By stripe. A value above [`Token::LARGEST`] stands for anything that is no counter.
    counters: BTreeMap<u64, Token>,
    /// Where the counters of other stripes start.
    floor: Token,
    /// Those that wait, by the name of the lock.
    queues: BTreeMap<Arc<str>, Queue>,
    /// What owners say beside their locks, by the name of the lock.
    notes: BTreeMap<Arc<str>, Note>,
}

/// What stands under the name of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Whose it is, or [`Owner::READERS`]; `None` if it was not made by a client of this library.
    pub owner: Option<Owner>,
    /// When it is gone; `None` if never.
    pub expires: Option<Instant>,
}

/// A key, with its value.
#[derive(Clone, Debug)]
struct Stored {
    value: Value,
    expires: Option<Instant>,
}

#[derive(Clone, Debug)]
enum Value {
    Owner(Owner),
    /// One for each owner that shares the key.
    Readers(Vec<Key>),
    /// What a client of another library has set it to, if that is known.
    Foreign(Option<Arc<str>>),
}

/// What an owner has said last. It counts while the lock is the owner's.
#[derive(Clone, Debug)]
struct Note {
    owner: Owner,
    text: Arc<str>,
    expires: Instant,
}

/// The field that holds no counter, or one without room for the block.
#[derive(Debug)]
struct Overflow(String);

impl Model {
    /// A process that has just been started, with nothing in its memory.
    #[must_use]
    pub fn new(server: Option<Arc<str>>) -> Self {
        Self {
            server,
            is_unflushed: true,
            ..Self::default()
        }
    }

    /// Carries out a request, as the scripts do: clock and spans are whole milliseconds.
    pub fn run(&mut self, request: &Request, at: Moment) -> Reply {
        let at = Moment {
            now: at.now.shown(),
            ..at
        };
        let replied = match request {
            Request::Vote(vote, _) if !self.is_admitted_as(vote.admission) => {
                Ok(Reply::NotAdmitted)
            }
            Request::Identify => Ok(Reply::Identity {
                server: self.server.clone(),
            }),
            // Who knows another format must not vote here, and can neither read nor write the rest.
            Request::Probe | Request::ReportLoss { .. } | Request::Admit { .. }
                if self.other_format.is_some() =>
            {
                Ok(Reply::Record(Box::new(Record {
                    other_format: self.other_format,
                    ..Record::default()
                })))
            }
            Request::Probe => self.reply_with_record(at),
            Request::ReportLoss {
                server,
                loss,
                beside_marker,
                max_ttl,
            } => self.report_loss(server, *loss, *beside_marker, counted(*max_ttl), at),
            Request::Admit {
                server,
                evidence,
                admission,
                floor,
                wall_micros,
                is_durable,
                max_ttl,
            } => {
                let marker = Marker {
                    server: server.clone(),
                    admission: *admission,
                    was_durable: *is_durable,
                };
                let floor = (*floor, *wall_micros);
                self.admit(marker, *evidence, floor, counted(*max_ttl), at)
            }
            Request::Vote(vote, act) => self.vote(vote, act, at),
            Request::Stand(stand) => Ok(self.stand_in_line(stand, at)),
            Request::Watch { key, owner, mode } => Ok(self.watch(key, (*owner, *mode), at.now)),
            Request::Release {
                key,
                owner,
                mode,
                keep,
                leaves,
            } => {
                self.leave_with(key, *leaves, owner.process());
                Ok(match mode {
                    Mode::Exclusive => self.release(key, *owner, *keep, at.now),
                    Mode::Shared => self.release_reader(key, *owner, at.now),
                })
            }
        };
        replied.unwrap_or_else(Overflow::into_reply)
    }

    /// Forgets everything, as by FLUSHALL.
    pub fn lose_memory(&mut self) {
        // `is_unflushed` becomes false: after a flush, a long uptime proves nothing any more.
        *self = Self {
            server: self.server.take(),
            ..Self::default()
        };
    }

    /// Another process goes on with this memory, which may be an older copy.
    pub fn restart(&mut self, server: Option<Arc<str>>) {
        self.server = server;
        // What was forgotten before is older than this process, so its uptime proves something again.
        self.is_unflushed = true;
    }

    /// What stands under this name at this time.
    #[must_use]
    pub fn key(&self, name: &str, now: Instant) -> Option<Key> {
        self.stored(name, now).map(Stored::key)
    }

    /// What the owner of this lock says to those who look at it.
    #[must_use]
    pub fn note(&self, name: &str, now: Instant) -> Option<&Arc<str>> {
        let owner = self.key(name, now)?.owner?;
        let note = self.notes.get(name)?;
        (note.owner == owner && now < note.expires).then_some(&note.text)
    }

    /// The record as it stands.
    #[must_use]
    pub fn record(&self, at: Moment) -> Record {
        Record {
            marker: self.marker.clone(),
            loss: self.noted_loss().map(|loss| LossRecord {
                age: at.now.since(loss.begin),
                ..loss.record
            }),
            longest: self.longest.map_or(Duration::ZERO, |it| it.read(at.now)),
            top: self.top(),
            max_ttl: self.max_ttl,
            other_format: None,
        }
    }

    /// A release with another format uses the node from now on.
    pub fn set_format(&mut self, format: u64) {
        self.other_format = Some(format);
        // Votes of clients that know the format before must not count any more.
        self.marker = None;
    }

    /// What each owner has of what stands under this name: several only if they share it. A part that
    /// has expired stays until the key is written again.
    #[must_use]
    pub fn parts(&self, name: &str, now: Instant) -> Vec<Key> {
        let Some(stored) = self.stored(name, now) else {
            return Vec::new();
        };
        match &stored.value {
            Value::Readers(readers) => readers.clone(),
            _ => vec![stored.key()],
        }
    }

    /// Sets or deletes a key, whatever stands there. It is not shared.
    pub fn set_key(&mut self, name: Arc<str>, key: Option<Key>) {
        match key {
            Some(Key { owner, expires }) => {
                let value = owner.map_or(Value::Foreign(None), Value::Owner);
                self.keys.insert(name, Stored { value, expires });
            }
            None => {
                self.keys.remove(&name);
            }
        }
    }

    /// `SET NX PX` by a client of another library; with `None` the key never expires. Returns whether
    /// it was set.
    pub fn set_foreign(
        &mut self,
        name: &Arc<str>,
        value: &str,
        ttl: Option<Duration>,
        now: Instant,
    ) -> bool {
        let is_free = self.key(name, now).is_none();
        if is_free {
            // In whole milliseconds, as servers count: else more time would be left than was asked for.
            let key = Stored {
                value: Value::Foreign(Some(value.into())),
                expires: ttl.map(|ttl| now.shown().after(counted(ttl))),
            };
            self.keys.insert(Arc::clone(name), key);
        }
        is_free
    }

    /// Compare and delete by a client of another library. Returns whether it was deleted.
    pub fn delete_foreign(&mut self, name: &str, value: &str, now: Instant) -> bool {
        let stored = self.stored(name, now);
        let is_its = stored.is_some_and(|key| match &key.value {
            Value::Foreign(text) => text.as_deref() == Some(value),
            _ => false,
        });
        if is_its {
            self.keys.remove(name);
        }
        is_its
    }

    /// Where the counter of a stripe stands: the next block begins above it.
    #[must_use]
    pub fn counter(&self, stripe: u64) -> Token {
        self.counters.get(&stripe).copied().unwrap_or(self.floor)
    }

    /// Sets the counter of a stripe, as operators do by mistake. A value above [`Token::LARGEST`]
    /// stands for anything that is no counter.
    pub fn set_counter(&mut self, stripe: u64, counter: Token) {
        self.counters.insert(stripe, counter);
    }

    fn watch(&self, key: &str, (owner, mode): (Option<Owner>, Mode), now: Instant) -> Reply {
        let Some(held) = self.stored(key, now) else {
            return Reply::Free;
        };
        match (&held.value, owner) {
            // What a lock that is shared consists of is not read.
            (Value::Readers(_), _) if mode == Mode::Exclusive => Reply::Taken,
            // Also if that reader has expired: its client does not know the time of the node.
            (value, Some(owner)) if value.names(owner) => Reply::Ours,
            _ => Reply::Taken,
        }
    }

    fn release(
        &mut self,
        key: &Arc<str>,
        owner: Owner,
        keep: Option<Duration>,
        now: Instant,
    ) -> Reply {
        let held = self.key(key, now);
        // It may be another owner's by now: promise 4 of the guarantees.
        if held.is_none_or(|held| held.owner != Some(owner)) {
            return Reply::NotOwner;
        }
        let Some(keep) = keep else {
            self.keys.remove(key);
            return Reply::Deleted;
        };
        if let Some(key) = self.keys.get_mut(key) {
            // Never longer: a release that comes late must not prolong the lock.
            let last = now.after(counted(keep));
            key.expires = Some(key.expires.map_or(last, |expires| expires.min(last)));
        }
        Reply::Kept
    }

    fn stored(&self, name: &str, now: Instant) -> Option<&Stored> {
        self.keys.get(name).filter(|key| key.lives(now))
    }

    fn is_admitted_as(&self, admission: AdmissionId) -> bool {
        let marker = self.marker.as_ref();
        marker.is_some_and(|marker| marker.admission == admission)
    }

    fn reply_with_record(&self, at: Moment) -> Result<Reply, Overflow> {
        self.check_counters()?;
        Ok(Reply::Record(self.record(at).into()))
    }

    fn check_counters(&self) -> Result<(), Overflow> {
        let mut counters = self.counters.iter();
        match counters.find(|&(_, &counter)| counter > Token::LARGEST) {
            Some((stripe, _)) => Err(Overflow(stripe.to_string())),
            None => Ok(()),
        }
    }

    fn top(&self) -> Token {
        let counters = self.counters.values().copied();
        // Stripes that have no counter yet begin above the floor, so the floor counts as well.
        counters.fold(self.floor, Token::max)
    }
}

impl Stored {
    fn lives(&self, now: Instant) -> bool {
        self.key().lives(now)
    }

    fn key(&self) -> Key {
        Key {
            owner: self.value.owner(),
            expires: self.expires,
        }
    }
}

impl Value {
    const fn owner(&self) -> Option<Owner> {
        match self {
            Self::Owner(owner) => Some(*owner),
            Self::Readers(_) => Some(Owner::READERS),
            Self::Foreign(_) => None,
        }
    }

    fn names(&self, owner: Owner) -> bool {
        match self {
            Self::Owner(one) => *one == owner,
            Self::Readers(readers) => readers.iter().any(|reader| reader.owner == Some(owner)),
            Self::Foreign(_) => false,
        }
    }
}

impl Key {
    /// It has not expired.
    #[must_use]
    pub fn lives(&self, now: Instant) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }

    fn remaining(&self, now: Instant) -> Option<Duration> {
        self.expires.map(|expires| expires.since(now))
    }

    fn as_reply(&self, ahead: Ahead, now: Instant) -> Reply {
        Reply::Held {
            owner: self.owner,
            remaining: self.remaining(now),
            ahead,
        }
    }
}

impl Overflow {
    fn into_reply(self) -> Reply {
        let Self(field) = self;
        Reply::Refused {
            reason: Rejection::Counter,
            message: format!("REDLOCK counter beyond 2^52 or no number: {field}").into(),
            // So the client has nothing to release here that it did not have before.
            is_untouched: true,
        }
    }
}

/// Whether both are one process, as far as can be told.
fn is_same(one: &Option<Arc<str>>, other: &Option<Arc<str>>) -> bool {
    // A user without the right to `INFO` does not know the process, and must accept the marker that stands there.
    one.is_none() || other.is_none() || one == other
}
