//! What a node does with a request: the reference for the scripts, in one place.
//!
//! `memory://` nodes, the tests' worlds and the simulation wrap it with their faults; a
//! differential test drives it and the scripts on a real server with the same requests.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    message::{
        AdmissionId, BlockRequest, Evidence, LossId, LossRecord, Marker, Owner, Process, Record,
        Reply, Request,
    },
    rules::token::{Token, fingerprint, stripe},
    time::Instant,
};

/// How far ahead of the node's wall clock a proposal may be.
const PROPOSAL_LIMIT_SECONDS: u64 = 5;

const MICROS: u64 = 1_000_000;

/// When a request is carried out.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// By the clock that keys expire by, in whole milliseconds on a server.
    pub now: Instant,
    /// Microseconds since 1970 by the node's wall clock. On a server both are one clock.
    pub wall_micros: u64,
}

/// One node's memory.
#[derive(Clone, Debug, Default)]
pub struct Model {
    keys: BTreeMap<Arc<str>, Value>,
    /// By stripe.
    counters: BTreeMap<u64, Token>,
    floor: Token,
    /// By stripe.
    hints: BTreeMap<u64, Hint>,
    marker: Option<Marker>,
    loss: Option<Loss>,
    longest: Longest,
    max_ttl: Option<Duration>,
    /// Keys were flushed since the process was started.
    was_flushed: bool,
}

/// What stands under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Whose it is, or the words of a client of another library.
    pub holder: Holder,
    /// `None` if it never expires.
    pub expires: Option<Instant>,
}

/// Whose a key is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A client of this library.
    Owner(Owner),
    /// A client of another one.
    Foreign(Arc<str>),
}

/// A process waits for a key.
#[derive(Clone, Copy, Debug)]
struct Hint {
    second: u64,
    key: u64,
    process: Process,
}

#[derive(Clone, Copy, Debug)]
struct Loss {
    id: LossId,
    found: Instant,
    beside_marker: bool,
    is_unflushed: bool,
    first_start: Option<Duration>,
}

/// The longest TTL of this period and of the one before.
#[derive(Clone, Copy, Debug, Default)]
struct Longest {
    period: u64,
    now: Duration,
    before: Duration,
}

impl Model {
    /// Carries out a request, as the scripts do.
    pub fn run(&mut self, request: &Request, at: Moment) -> Reply {
        match request {
            Request::Identify => Reply::Identity { server: None },
            Request::Probe => Reply::Record(self.record(at)),
            Request::ReportLoss {
                server,
                loss,
                beside_marker,
                max_ttl,
            } => self.report_loss(server.as_ref(), (*loss, *beside_marker), *max_ttl, at),
            Request::Admit { .. } => self.admit(request, at),
            Request::Acquire {
                admission,
                key,
                owner,
                ttl,
                block,
                waits,
            } => {
                self.expire(key, at);
                if !self.is_admitted(*admission) {
                    return Reply::NotAdmitted;
                }
                self.acquire(key, *owner, *ttl, *block, *waits, at)
            }
            Request::Extend { .. } => self.extend(request, at),
            Request::PutBack {
                key,
                owner,
                ttl,
                admission,
            } => {
                self.expire(key, at);
                if !self.is_admitted(*admission) {
                    return Reply::NotAdmitted;
                }
                match self.keys.get(key) {
                    Some(value) if value.is_of(*owner) => Reply::PutBack,
                    Some(value) => value.held(at),
                    None => {
                        self.set(key, *owner, *ttl, at);
                        Reply::PutBack
                    }
                }
            }
            Request::Watch { key, owner } => {
                self.expire(key, at);
                match self.keys.get(key) {
                    Some(value) if owner.is_some_and(|owner| value.is_of(owner)) => Reply::Ours,
                    Some(value) => Reply::Taken {
                        owner: value.owner(),
                    },
                    None => Reply::Free,
                }
            }
            Request::Release { key, owner } => {
                self.expire(key, at);
                if self.keys.get(key).is_some_and(|value| value.is_of(*owner)) {
                    self.keys.remove(key);
                    Reply::Deleted
                } else {
                    Reply::NotOwner
                }
            }
        }
    }

    // ---- what happens to a server

    /// `FLUSHALL`.
    pub fn flush(&mut self) {
        *self = Self {
            was_flushed: true,
            ..Self::default()
        };
    }

    /// Another process goes on with this memory.
    pub const fn restart(&mut self) {
        self.was_flushed = false;
    }

    // ---- looking, and what other clients do

    /// The record as a probe reads it.
    #[must_use]
    pub fn record(&self, at: Moment) -> Record {
        let counters = self.counters.values().copied();
        Record {
            marker: self.marker.clone(),
            loss: self.loss.map(|loss| LossRecord {
                id: loss.id,
                age: at.now.since(loss.found),
                beside_marker: loss.beside_marker,
                is_unflushed: loss.is_unflushed,
                first_start: loss.first_start,
            }),
            longest: self.longest.at(self.period(at)),
            top: counters.fold(self.floor, Token::max),
            max_ttl: self.max_ttl,
        }
    }

    /// What stands under a key, if it has not expired.
    #[must_use]
    pub fn key(&self, key: &str, at: Moment) -> Option<&Value> {
        self.keys.get(key).filter(|value| !value.is_expired(at))
    }

    /// The process of the marker: `None` without a marker, `Some(None)` if it is not known.
    #[must_use]
    pub fn server_of_marker(&self) -> Option<Option<&Arc<str>>> {
        let marker = self.marker.as_ref()?;
        Some(marker.server.as_ref())
    }

    /// Lets another client set a key by `SET NX PX`. False if there was one.
    pub fn set_foreign(
        &mut self,
        key: &Arc<str>,
        value: &str,
        ttl: Option<Duration>,
        at: Moment,
    ) -> bool {
        self.expire(key, at);
        let is_free = !self.keys.contains_key(key);
        if is_free {
            let value = Value {
                holder: Holder::Foreign(value.into()),
                expires: ttl.map(|ttl| at.now.after(ttl)),
            };
            self.keys.insert(Arc::clone(key), value);
        }
        is_free
    }

    /// Lets another client delete its key. False if it is not there.
    pub fn delete_foreign(&mut self, key: &str, value: &str, at: Moment) -> bool {
        self.expire(key, at);
        let is_its =
            |held: &Value| matches!(&held.holder, Holder::Foreign(text) if **text == *value);
        let is_there = self.keys.get(key).is_some_and(is_its);
        if is_there {
            self.keys.remove(key);
        }
        is_there
    }

    /// Deletes a key, whoever's it is.
    pub fn delete(&mut self, key: &str) {
        self.keys.remove(key);
    }

    /// The counter behind a key's tokens.
    #[must_use]
    pub fn counter(&self, key: &str) -> Token {
        let counter = self.counters.get(&stripe(key));
        counter.copied().unwrap_or(self.floor)
    }

    /// Sets it, whatever it was.
    pub fn set_counter(&mut self, key: &str, counter: Token) {
        self.counters.insert(stripe(key), counter);
    }

    // ---- locks

    fn is_admitted(&self, admission: AdmissionId) -> bool {
        let marker = self.marker.as_ref();
        marker.is_some_and(|marker| marker.admission == admission)
    }

    fn acquire(
        &mut self,
        key: &Arc<str>,
        owner: Owner,
        ttl: Duration,
        block: BlockRequest,
        waits: bool,
        at: Moment,
    ) -> Reply {
        if let Some(value) = self.keys.get(key) {
            let (held, holder) = (value.held(at), value.owner());
            if waits {
                self.hint(key, owner, holder, at);
            }
            return held;
        }
        let first = match self.take(key, block, at) {
            Ok(first) => first,
            Err(refused) => return refused,
        };
        self.set(key, owner, ttl, at);
        Reply::Granted {
            first,
            has_remote_waiter: self.has_remote_waiter(key, owner, at),
        }
    }

    fn extend(&mut self, request: &Request, at: Moment) -> Reply {
        let Request::Extend {
            key,
            owner,
            ttl,
            spare,
            block,
            admission,
        } = request
        else {
            unreachable!("not an extension")
        };
        self.expire(key, at);
        if !self.is_admitted(*admission) {
            return Reply::NotAdmitted;
        }
        let Some(value) = self.keys.get(key).filter(|value| value.is_of(*owner)) else {
            return Reply::NotOwner;
        };
        let remaining = value.expires.map(|expires| expires.since(at.now));
        let first = match block.map(|block| self.take(key, block, at)).transpose() {
            Ok(first) => first,
            Err(refused) => return refused,
        };
        if remaining.is_some_and(|remaining| remaining < *ttl) {
            self.set(key, *owner, *ttl + *spare, at);
        }
        Reply::Extended {
            remaining,
            first,
            has_remote_waiter: self.has_remote_waiter(key, *owner, at),
        }
    }

    fn set(&mut self, key: &Arc<str>, owner: Owner, ttl: Duration, at: Moment) {
        let value = Value {
            holder: Holder::Owner(owner),
            expires: Some(at.now.after(ttl)),
        };
        self.keys.insert(Arc::clone(key), value);
        self.longest.raise(ttl, self.period(at));
    }

    /// Takes a block of tokens; fails with what the node says if none is left.
    fn take(&mut self, key: &str, block: BlockRequest, at: Moment) -> Result<Token, Reply> {
        let before = self.counter(key);
        let limit = (at.wall_micros / MICROS + PROPOSAL_LIMIT_SECONDS) * MICROS;
        let proposal = block.proposal.0.min(limit);
        let first = Token(before.0.saturating_add(1).max(proposal));
        let last = Token(first.0.saturating_add(block.length - 1));
        if last > Token::LARGEST {
            return Err(Reply::Refused {
                message: format!("REDLOCK counter is at {before}, which is out of range").into(),
                is_untouched: true,
            });
        }
        self.counters.insert(stripe(key), last);
        Ok(first)
    }

    fn expire(&mut self, key: &str, at: Moment) {
        if self.keys.get(key).is_some_and(|value| value.is_expired(at)) {
            self.keys.remove(key);
        }
    }

    // ---- waiter hints

    /// Notes that a process waits, unless a fresh note says so already of one that does not hold
    /// the key itself.
    fn hint(&mut self, key: &str, waiter: Owner, holder: Option<Owner>, at: Moment) {
        let second = at.wall_micros / MICROS;
        let holder = holder.map(Owner::process);
        let is_noted = self.hints.get(&stripe(key)).is_some_and(|hint| {
            let is_fresh = hint.second == second && hint.key == fingerprint(key);
            is_fresh && Some(hint.process) != holder
        });
        if !is_noted {
            let hint = Hint {
                second,
                key: fingerprint(key),
                process: waiter.process(),
            };
            self.hints.insert(stripe(key), hint);
        }
    }

    fn has_remote_waiter(&self, key: &str, owner: Owner, at: Moment) -> bool {
        let second = at.wall_micros / MICROS;
        self.hints.get(&stripe(key)).is_some_and(|hint| {
            let is_fresh = hint.second.abs_diff(second) <= 1 && hint.key == fingerprint(key);
            is_fresh && hint.process != owner.process()
        })
    }

    // ---- the vote

    fn report_loss(
        &mut self,
        server: Option<&Arc<str>>,
        (id, beside_marker): (LossId, bool),
        max_ttl: Duration,
        at: Moment,
    ) -> Reply {
        if !self.is_marked_for(server) {
            self.marker = None;
            self.loss.get_or_insert(Loss {
                id,
                found: at.now,
                beside_marker,
                is_unflushed: !self.was_flushed,
                first_start: None,
            });
            self.max_ttl.get_or_insert(max_ttl);
        }
        Reply::Record(self.record(at))
    }

    fn is_marked_for(&self, server: Option<&Arc<str>>) -> bool {
        self.marker.as_ref().is_some_and(|marker| {
            let marked = marker.server.as_ref();
            marked.is_none() || server.is_none() || marked == server
        })
    }

    fn admit(&mut self, request: &Request, at: Moment) -> Reply {
        let Request::Admit {
            server,
            evidence,
            admission,
            floor,
            is_durable,
            max_ttl,
        } = request
        else {
            unreachable!("not an admission")
        };
        if let Some(marker) = &self.marker
            && self.is_marked_for(server.as_ref())
        {
            let admission = marker.admission;
            return Reply::Admitted { admission };
        }
        if !self.is_good(*evidence, at) {
            return Reply::Record(self.record(at));
        }
        let counters = self.counters.values().copied();
        let top = counters.fold(self.floor.max(*floor), Token::max);
        if top > Token::LARGEST {
            return Reply::Refused {
                message: format!("REDLOCK counter is at {top}, which is out of range").into(),
                is_untouched: true,
            };
        }
        if !matches!(evidence, Evidence::Durable { .. }) {
            self.longest = Longest::default();
        }
        self.counters.clear();
        self.floor = top;
        self.loss = None;
        self.max_ttl.get_or_insert(*max_ttl);
        self.marker = Some(Marker {
            server: server.clone(),
            admission: *admission,
            was_durable: *is_durable,
        });
        let admission = *admission;
        Reply::Admitted { admission }
    }

    fn is_good(&mut self, evidence: Evidence, at: Moment) -> bool {
        let waited = |noted: &Loss, wait| at.now >= noted.found.after(wait);
        match (evidence, &mut self.loss) {
            (Evidence::Durable { admission }, _) => self
                .marker
                .as_ref()
                .is_some_and(|marker| marker.was_durable && marker.admission == admission),
            (Evidence::Waited { loss, wait }, Some(noted)) if noted.id == loss => {
                waited(noted, wait)
            }
            (Evidence::FirstStart { loss, wait }, Some(noted)) if noted.id == loss => {
                let wait = noted.first_start.map_or(wait, |known| known.max(wait));
                noted.first_start = Some(wait);
                waited(noted, wait)
            }
            _ => false,
        }
    }

    /// Each is as long as any key may live.
    fn period(&self, at: Moment) -> u64 {
        let length = self.max_ttl.map_or(1, |ttl| ttl.as_millis() as u64).max(1);
        at.now.as_nanos() / 1_000_000 / length
    }
}

impl Longest {
    fn at(&self, period: u64) -> Duration {
        match period.checked_sub(self.period) {
            // A clock that was set back is still in the period.
            None | Some(0) => self.now.max(self.before),
            Some(1) => self.now,
            Some(_) => Duration::ZERO,
        }
    }

    fn raise(&mut self, ttl: Duration, period: u64) {
        if period > self.period {
            *self = Self {
                period,
                now: Duration::ZERO,
                before: if period == self.period + 1 {
                    self.now
                } else {
                    Duration::ZERO
                },
            };
        }
        self.now = self.now.max(ttl);
    }
}

impl Value {
    /// The client of this library whose it is.
    #[must_use]
    pub const fn owner(&self) -> Option<Owner> {
        match self.holder {
            Holder::Owner(owner) => Some(owner),
            Holder::Foreign(_) => None,
        }
    }

    fn is_of(&self, owner: Owner) -> bool {
        self.owner() == Some(owner)
    }

    fn is_expired(&self, at: Moment) -> bool {
        self.expires.is_some_and(|expires| expires <= at.now)
    }

    fn held(&self, at: Moment) -> Reply {
        Reply::Held {
            owner: self.owner(),
            remaining: self.expires.map(|expires| expires.since(at.now)),
        }
    }
}
