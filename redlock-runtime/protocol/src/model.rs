//! What a node does with a request: the reference for the scripts, in one function.
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

/// A proposal further above the counter than this is compared with the node's wall clock.
const TRUSTED_LEAD_MICROS: u64 = 5_000_000;

/// A proposal may be so many seconds ahead of the node's wall clock, in whole seconds so that nodes
/// agree on the limit. A client whose clock is wrong must not use up the tokens of years.
const LONGEST_LEAD_SECONDS: u64 = 5;

/// When a request is carried out.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// By the clock that keys expire by, in whole milliseconds on a server.
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
    keys: BTreeMap<Arc<str>, Key>,
    /// What clients of other libraries have set their keys to.
    foreign: BTreeMap<Arc<str>, Arc<str>>,
    marker: Option<Marker>,
    loss: Option<Loss>,
    max_ttl: Option<Duration>,
    longest: Option<Longest>,
    /// By stripe. A value above [`Token::LARGEST`] stands for anything that is no counter.
    counters: BTreeMap<u64, Token>,
    /// Where the counters of other stripes start.
    floor: Token,
    /// By stripe.
    hints: BTreeMap<u64, Hint>,
}

/// What stands under the name of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Whose it is; `None` if it was not made by a client of this library.
    pub owner: Option<Owner>,
    /// When it is gone; `None` if never.
    pub expires: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Loss {
    id: LossId,
    /// The process that it was noted in.
    server: Option<Arc<str>>,
    begin: Instant,
    beside_marker: bool,
    is_unflushed: bool,
    first_start: Option<Duration>,
}

/// The longest key TTL that was voted for in this period and in the one before.
#[derive(Clone, Copy, Debug)]
struct Longest {
    this: Duration,
    before: Duration,
    /// Once this has come, the next vote that looks at the clock begins a new period.
    until: Instant,
    /// The same in microseconds since 1970. A vote whose proposal is below it does not look at the
    /// clock: that costs the script a tenth of its time.
    until_micros: u64,
}

/// A client waits for a key of the stripe.
#[derive(Clone, Copy, Debug)]
struct Hint {
    second: u64,
    key: u64,
    process: Process,
}

/// What acquire, extend and put back have in common.
#[derive(Clone, Copy, Debug)]
struct Vote<'a> {
    key: &'a Arc<str>,
    owner: Owner,
    ttl: Duration,
    block: Option<BlockRequest>,
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

    /// Carries out a request, as the scripts do.
    pub fn run(&mut self, request: &Request, at: Moment) -> Reply {
        let replied = match request {
            Request::Acquire { admission, .. }
            | Request::Extend { admission, .. }
            | Request::PutBack { admission, .. }
                if !self.is_admitted_as(*admission) =>
            {
                Ok(Reply::NotAdmitted)
            }
            Request::Identify => Ok(Reply::Identity {
                server: self.server.clone(),
            }),
            Request::Probe => self.reply_with_record(at),
            Request::ReportLoss {
                server,
                loss,
                beside_marker,
                max_ttl,
            } => self.report_loss(server, *loss, *beside_marker, *max_ttl, at),
            Request::Admit {
                server,
                evidence,
                admission,
                floor,
                is_durable,
                max_ttl,
            } => {
                let marker = Marker {
                    server: server.clone(),
                    admission: *admission,
                    was_durable: *is_durable,
                };
                self.admit(marker, *evidence, *floor, *max_ttl, at)
            }
            Request::Acquire {
                key,
                owner,
                ttl,
                block,
                waits,
                ..
            } => self.acquire(Vote::new(key, *owner, *ttl, Some(*block)), *waits, at),
            Request::Extend {
                key,
                owner,
                ttl,
                spare,
                block,
                ..
            } => self.extend(Vote::new(key, *owner, *ttl, *block), *spare, at),
            Request::PutBack {
                key, owner, ttl, ..
            } => Ok(self.put_back(Vote::new(key, *owner, *ttl, None), at)),
            Request::Watch { key, owner } => Ok(self.watch(key, *owner, at.now)),
            Request::Release { key, owner } => Ok(self.release(key, *owner, at.now)),
        };
        replied.unwrap_or_else(Overflow::into_reply)
    }

    /// Forgets everything, as by FLUSHALL.
    pub fn lose_memory(&mut self) {
        *self = Self {
            server: self.server.take(),
            ..Self::default()
        };
    }

    /// Another process goes on with this memory, which may be an older copy.
    pub fn restart(&mut self, server: Option<Arc<str>>) {
        self.server = server;
        self.is_unflushed = true;
    }

    /// What stands under this name at this time.
    #[must_use]
    pub fn key(&self, name: &str, now: Instant) -> Option<Key> {
        self.keys.get(name).copied().filter(|key| key.lives(now))
    }

    /// The record as it stands.
    #[must_use]
    pub fn record(&self, at: Moment) -> Record {
        Record {
            marker: self.marker.clone(),
            loss: self.noted_loss().map(|loss| LossRecord {
                id: loss.id,
                age: at.now.since(loss.begin),
                beside_marker: loss.beside_marker,
                is_unflushed: loss.is_unflushed,
                first_start: loss.first_start,
            }),
            longest: self.longest.map_or(Duration::ZERO, |it| it.read(at.now)),
            top: self.top(),
            max_ttl: self.max_ttl,
        }
    }

    /// All keys that there are at this time, by name.
    pub fn keys(&self, now: Instant) -> impl Iterator<Item = (&Arc<str>, Key)> {
        let keys = self.keys.iter().map(|(name, key)| (name, *key));
        keys.filter(move |(_, key)| key.lives(now))
    }

    /// Sets or deletes a key, whatever stands there.
    pub fn set_key(&mut self, name: Arc<str>, key: Option<Key>) {
        self.foreign.remove(&name);
        match key {
            Some(key) => self.keys.insert(name, key),
            None => self.keys.remove(&name),
        };
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
            let key = Key {
                owner: None,
                expires: ttl.map(|ttl| now.after(ttl)),
            };
            self.keys.insert(Arc::clone(name), key);
            self.foreign.insert(Arc::clone(name), value.into());
        }
        is_free
    }

    /// Compare and delete by a client of another library. Returns whether it was deleted.
    pub fn delete_foreign(&mut self, name: &str, value: &str, now: Instant) -> bool {
        let is_foreign = self.key(name, now).is_some_and(|key| key.owner.is_none());
        let is_its = is_foreign && self.foreign.get(name).is_some_and(|text| **text == *value);
        if is_its {
            self.keys.remove(name);
            self.foreign.remove(name);
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

    fn acquire(&mut self, vote: Vote<'_>, waits: bool, at: Moment) -> Result<Reply, Overflow> {
        let block = self.next_block(vote, true, at)?;
        if let Some(held) = self.key(vote.key, at.now) {
            if waits {
                self.leave_hint(vote, held.owner, at);
            }
            return Ok(held.as_reply(at.now));
        }
        self.set(vote, vote.ttl, at);
        let first = self.take(vote, block);
        self.raise_longest(vote.ttl, vote.block, at);
        Ok(Reply::Granted {
            first: first.unwrap_or_default(),
            has_remote_waiter: self.has_remote_waiter(vote, at),
        })
    }

    fn extend(&mut self, vote: Vote<'_>, spare: Duration, at: Moment) -> Result<Reply, Overflow> {
        let remaining = match self.key(vote.key, at.now) {
            Some(held) if held.owner == Some(vote.owner) => held.remaining(at.now),
            _ => return Ok(Reply::NotOwner),
        };
        let block = self.next_block(vote, false, at)?;
        let mut ttl = vote.ttl;
        if remaining.is_some_and(|remaining| remaining < ttl) {
            ttl += spare;
            self.set(vote, ttl, at);
        }
        let first = self.take(vote, block);
        self.raise_longest(ttl, vote.block, at);
        Ok(Reply::Extended {
            remaining,
            first,
            has_remote_waiter: self.has_remote_waiter(vote, at),
        })
    }

    fn put_back(&mut self, vote: Vote<'_>, at: Moment) -> Reply {
        match self.key(vote.key, at.now) {
            Some(held) if held.owner == Some(vote.owner) => return Reply::PutBack,
            Some(held) => return held.as_reply(at.now),
            None => {}
        }
        self.set(vote, vote.ttl, at);
        self.raise_longest(vote.ttl, None, at);
        Reply::PutBack
    }

    fn watch(&self, key: &str, owner: Option<Owner>, now: Instant) -> Reply {
        match self.key(key, now) {
            None => Reply::Free,
            Some(held) if held.owner.is_some() && held.owner == owner => Reply::Ours,
            Some(held) => Reply::Taken { owner: held.owner },
        }
    }

    fn release(&mut self, key: &str, owner: Owner, now: Instant) -> Reply {
        let held = self.key(key, now);
        if held.is_none_or(|held| held.owner != Some(owner)) {
            return Reply::NotOwner;
        }
        self.keys.remove(key);
        Reply::Deleted
    }

    fn report_loss(
        &mut self,
        server: &Option<Arc<str>>,
        id: LossId,
        beside_marker: bool,
        max_ttl: Duration,
        at: Moment,
    ) -> Result<Reply, Overflow> {
        self.check_counters()?;
        if self.marker_for(server).is_some() {
            return self.reply_with_record(at);
        }
        let had_marker = self.marker.is_some();
        match self
            .loss
            .as_mut()
            .filter(|loss| is_same(&loss.server, &self.server))
        {
            None => {
                self.loss = Some(Loss {
                    id,
                    server: self.server.clone(),
                    begin: at.now,
                    // Its own, of another process, tells as well that this is no first start.
                    beside_marker: beside_marker || had_marker,
                    // Without its own it may have been deleted, if others have one.
                    is_unflushed: self.is_unflushed && (had_marker || !beside_marker),
                    first_start: None,
                });
            }
            Some(loss) => loss.beside_marker |= beside_marker,
        }
        self.max_ttl.get_or_insert(max_ttl);
        self.marker = None;
        self.longest = None;
        self.reply_with_record(at)
    }

    fn admit(
        &mut self,
        marker: Marker,
        evidence: Evidence,
        floor: Token,
        max_ttl: Duration,
        at: Moment,
    ) -> Result<Reply, Overflow> {
        self.check_counters()?;
        if let Some(stands) = self.marker_for(&marker.server) {
            let admission = stands.admission;
            return Ok(Reply::Admitted { admission });
        }
        if floor > Token::LARGEST {
            return Err(Overflow("floor".to_owned()));
        }
        if !self.is_good(evidence, at.now) {
            return self.reply_with_record(at);
        }
        if !matches!(evidence, Evidence::Durable { .. }) {
            self.floor = floor.max(self.top());
            self.counters.clear();
            self.hints.clear();
            self.longest = None;
        }
        self.loss = None;
        self.max_ttl.get_or_insert(max_ttl);
        let admission = marker.admission;
        self.marker = Some(marker);
        Ok(Reply::Admitted { admission })
    }

    /// Keeps the time that is named for a first start, and compares with the clock.
    fn is_good(&mut self, evidence: Evidence, now: Instant) -> bool {
        let (loss, wait, is_first_start) = match evidence {
            Evidence::Durable { admission } => {
                let marker = self.marker.as_ref();
                return marker.is_some_and(|it| it.admission == admission);
            }
            Evidence::Waited { loss, wait } => (loss, wait, false),
            Evidence::FirstStart { loss, wait } => (loss, wait, true),
        };
        let is_it = |noted: &&mut Loss| noted.id == loss && is_same(&noted.server, &self.server);
        let Some(noted) = self.loss.as_mut().filter(is_it) else {
            return false;
        };
        if !is_first_start {
            return now >= noted.begin.after(wait);
        }
        let wait = noted.first_start.map_or(wait, |longest| longest.max(wait));
        noted.first_start = Some(wait);
        now >= noted.begin.after(wait)
    }

    /// The marker, if it names this process as far as can be told.
    fn marker_for(&self, server: &Option<Arc<str>>) -> Option<&Marker> {
        let marker = self.marker.as_ref()?;
        is_same(&marker.server, server).then_some(marker)
    }

    fn is_admitted_as(&self, admission: AdmissionId) -> bool {
        let marker = self.marker.as_ref();
        marker.is_some_and(|marker| marker.admission == admission)
    }

    fn reply_with_record(&self, at: Moment) -> Result<Reply, Overflow> {
        self.check_counters()?;
        Ok(Reply::Record(self.record(at)))
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
        counters.fold(self.floor, Token::max)
    }

    /// The loss that stands. One that another process noted has come back with old data: it says
    /// nothing of what was forgotten since.
    fn noted_loss(&self) -> Option<&Loss> {
        let loss = self.loss.as_ref();
        loss.filter(|loss| is_same(&loss.server, &self.server))
    }

    fn set(&mut self, vote: Vote<'_>, ttl: Duration, at: Moment) {
        let owner = Some(vote.owner);
        let expires = Some(at.now.after(ttl));
        let key = Key { owner, expires };
        self.keys.insert(Arc::clone(vote.key), key);
    }

    /// The first and the last number of the block, if one is wanted. An acquisition proposes a wall
    /// clock, which may be wrong; a refresh proposes by numbers that nodes have reported.
    fn next_block(
        &self,
        vote: Vote<'_>,
        is_wall_clock: bool,
        at: Moment,
    ) -> Result<Option<(Token, Token)>, Overflow> {
        let Some(block) = vote.block else {
            return Ok(None);
        };
        let stripe = stripe(vote.key);
        let before = self.counter(stripe).0;
        let overflow = || {
            let has_counter = self.counters.contains_key(&stripe);
            let field = has_counter.then(|| stripe.to_string());
            Overflow(field.unwrap_or_else(|| "floor".to_owned()))
        };
        if before > Token::HIGHEST_PLAUSIBLE.0 {
            return Err(overflow());
        }
        let mut first = block.proposal.min(Token::LARGEST).0;
        if is_wall_clock && first > before && first - before > TRUSTED_LEAD_MICROS {
            let limit = (at.wall_micros / 1_000_000 + LONGEST_LEAD_SECONDS) * 1_000_000;
            first = first.min(limit);
        }
        first = first.max(before.saturating_add(1));
        let last = first.saturating_add(block.length.saturating_sub(1));
        if last > Token::LARGEST.0 {
            return Err(overflow());
        }
        Ok(Some((Token(first), Token(last))))
    }

    fn take(&mut self, vote: Vote<'_>, block: Option<(Token, Token)>) -> Option<Token> {
        let (first, last) = block?;
        self.counters.insert(stripe(vote.key), last);
        Some(first)
    }

    fn raise_longest(&mut self, ttl: Duration, block: Option<BlockRequest>, at: Moment) {
        let is_enough = |longest: &Longest| {
            ttl <= longest.this
                && block.is_some_and(|block| block.proposal.0 < longest.until_micros)
        };
        if !self.longest.as_ref().is_some_and(is_enough) {
            let period = self.max_ttl.unwrap_or(Duration::MAX);
            self.longest = Some(Longest::raised(self.longest, ttl, period, at));
        }
    }

    /// Leaves a hint, unless one of this very second stands there for this key that does its
    /// duty: it is of another process than the holder's.
    fn leave_hint(&mut self, vote: Vote<'_>, holder: Option<Owner>, at: Moment) {
        let hint = Hint::new(vote, at);
        let stands = |old: &Hint| {
            old.second == hint.second
                && old.key == hint.key
                && holder.is_none_or(|holder| old.process != holder.process())
        };
        let stripe = stripe(vote.key);
        if !self.hints.get(&stripe).is_some_and(stands) {
            self.hints.insert(stripe, hint);
        }
    }

    fn has_remote_waiter(&self, vote: Vote<'_>, at: Moment) -> bool {
        let ours = Hint::new(vote, at);
        self.hints.get(&stripe(vote.key)).is_some_and(|hint| {
            hint.second.abs_diff(ours.second) <= 1
                && hint.key == ours.key
                && hint.process != ours.process
        })
    }
}

impl<'a> Vote<'a> {
    const fn new(
        key: &'a Arc<str>,
        owner: Owner,
        ttl: Duration,
        block: Option<BlockRequest>,
    ) -> Self {
        Self {
            key,
            owner,
            ttl,
            block,
        }
    }
}

impl Key {
    fn lives(&self, now: Instant) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }

    fn remaining(&self, now: Instant) -> Option<Duration> {
        self.expires.map(|expires| expires.since(now))
    }

    fn as_reply(&self, now: Instant) -> Reply {
        Reply::Held {
            owner: self.owner,
            remaining: self.remaining(now),
        }
    }
}

impl Longest {
    fn raised(old: Option<Self>, ttl: Duration, period: Duration, at: Moment) -> Self {
        let before = match old {
            Some(old) if at.now < old.until => {
                let this = old.this.max(ttl);
                return Self { this, ..old };
            }
            // However long ago the period ended: votes since then may not have been noted.
            Some(old) => old.this,
            None => Duration::ZERO,
        };
        let micros = u64::try_from(period.as_micros()).unwrap_or(u64::MAX);
        Self {
            this: ttl,
            before,
            until: at.now.after(period),
            until_micros: (at.wall_micros / 1_000 * 1_000).saturating_add(micros),
        }
    }

    /// What was voted for since the period ended may not have been noted, so `this` counts until the
    /// next period has begun.
    fn read(&self, now: Instant) -> Duration {
        if now < self.until {
            self.this.max(self.before)
        } else {
            self.this
        }
    }
}

impl Hint {
    fn new(vote: Vote<'_>, at: Moment) -> Self {
        Self {
            second: at.wall_micros / 1_000_000,
            key: fingerprint(vote.key),
            process: vote.owner.process(),
        }
    }
}

impl Overflow {
    fn into_reply(self) -> Reply {
        let Self(field) = self;
        Reply::Refused {
            message: format!("REDLOCK counter beyond 2^52 or no number: {field}").into(),
            is_untouched: true,
        }
    }
}

/// Whether both are one process, as far as can be told.
fn is_same(one: &Option<Arc<str>>, other: &Option<Arc<str>>) -> bool {
    one.is_none() || other.is_none() || one == other
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_TTL: Duration = Duration::from_secs(60);
    const TTL: Duration = Duration::from_secs(5);
    const US: Owner = Owner(1 << 64 | 1);
    const US_AGAIN: Owner = Owner(1 << 64 | 2);
    const THEM: Owner = Owner(2 << 64 | 1);
    const THIRD: Owner = Owner(3 << 64 | 1);
    const ADMISSION: AdmissionId = AdmissionId(7);
    const LOSS: LossId = LossId(8);

    /// On a server both clocks are one.
    fn at(millis: u64) -> Moment {
        let since_1970 = Duration::from_secs(1_700_000_000) + Duration::from_millis(millis);
        Moment {
            now: Instant::from_nanos(0).after(since_1970),
            wall_micros: since_1970.as_micros() as u64,
        }
    }

    fn micros(millis: u64) -> Token {
        Token(at(millis).wall_micros)
    }

    fn name(server: &str) -> Option<Arc<str>> {
        Some(server.into())
    }

    fn report(server: &str, loss: LossId) -> Request {
        Request::ReportLoss {
            server: name(server),
            loss,
            beside_marker: false,
            max_ttl: MAX_TTL,
        }
    }

    fn admit(server: &str, evidence: Evidence) -> Request {
        Request::Admit {
            server: name(server),
            evidence,
            admission: ADMISSION,
            floor: Token(0),
            is_durable: true,
            max_ttl: MAX_TTL,
        }
    }

    const fn waited(millis: u64) -> Evidence {
        Evidence::Waited {
            loss: LOSS,
            wait: Duration::from_millis(millis),
        }
    }

    /// A node that votes, in the process `a`.
    fn voting() -> Model {
        let mut model = Model::new(name("a"));
        model.run(&report("a", LOSS), at(0));
        let admitted = model.run(&admit("a", waited(0)), at(0));
        let admission = ADMISSION;
        assert_eq!(admitted, Reply::Admitted { admission });
        model
    }

    fn acquire(owner: Owner, proposal: Token, length: u64) -> Request {
        Request::Acquire {
            key: "k".into(),
            owner,
            ttl: TTL,
            block: BlockRequest { proposal, length },
            admission: ADMISSION,
            waits: true,
        }
    }

    fn extend(owner: Owner, ttl: Duration, block: Option<BlockRequest>) -> Request {
        Request::Extend {
            key: "k".into(),
            owner,
            ttl,
            spare: Duration::from_secs(1),
            block,
            admission: ADMISSION,
        }
    }

    fn put_back(owner: Owner) -> Request {
        Request::PutBack {
            key: "k".into(),
            owner,
            ttl: TTL,
            admission: ADMISSION,
        }
    }

    fn release(owner: Owner) -> Request {
        let key = "k".into();
        Request::Release { key, owner }
    }

    const fn granted(first: u64, has_remote_waiter: bool) -> Reply {
        Reply::Granted {
            first: Token(first),
            has_remote_waiter,
        }
    }

    const fn held(owner: Owner, remaining: Duration) -> Reply {
        Reply::Held {
            owner: Some(owner),
            remaining: Some(remaining),
        }
    }

    const fn extended(remaining: Duration, first: Option<Token>) -> Reply {
        Reply::Extended {
            remaining: Some(remaining),
            first,
            has_remote_waiter: false,
        }
    }

    fn record(reply: Reply) -> Record {
        match reply {
            Reply::Record(record) => record,
            reply => panic!("{reply:?} is no record"),
        }
    }

    #[test]
    fn a_key_is_its_owners_until_it_is_released_or_expires() {
        let mut model = voting();
        assert_eq!(
            model.run(&acquire(US, Token(9), 1), at(0)),
            granted(9, false)
        );
        let refused = model.run(&acquire(THEM, Token(9), 1), at(4_000));
        assert_eq!(refused, held(US, Duration::from_secs(1)));
        assert_eq!(model.run(&release(THEM), at(4_000)), Reply::NotOwner);
        assert_eq!(model.run(&release(US), at(4_000)), Reply::Deleted);
        assert_eq!(model.run(&release(US), at(4_000)), Reply::NotOwner);

        assert_eq!(
            model.run(&acquire(THEM, Token(9), 1), at(6_000)),
            granted(10, false)
        );
        assert_eq!(
            model.run(&extend(THEM, TTL, None), at(11_000)),
            Reply::NotOwner
        );
        assert_eq!(
            model.run(&acquire(US, Token(9), 1), at(11_000)),
            granted(11, false)
        );
    }

    #[test]
    fn a_block_lies_above_all_that_the_counter_has_seen() {
        let mut model = voting();
        assert_eq!(
            model.run(&acquire(US, Token(9), 256), at(0)),
            granted(9, false)
        );
        let block = |proposal| {
            let length = 2;
            Some(BlockRequest { proposal, length })
        };
        let next = model.run(&extend(US, TTL, block(Token(0))), at(0));
        assert_eq!(next, extended(TTL, Some(Token(9 + 256))));
        let next = model.run(&extend(US, TTL, block(Token(1_000))), at(0));
        assert_eq!(next, extended(TTL, Some(Token(1_000))));
        assert_eq!(model.counter(stripe("k")), Token(1_001));
        let none = model.run(&extend(US, TTL, None), at(0));
        assert_eq!(none, extended(TTL, None));
    }

    #[test]
    fn a_proposal_far_ahead_is_cut_back_to_whole_seconds_that_nodes_agree_on() {
        for millis in [0, 400, 999] {
            let mut model = voting();
            let far = acquire(US, micros(86_400_000), 1);
            assert_eq!(model.run(&far, at(millis)), granted(micros(5_000).0, false));
        }
        // A counter that stands there already vouches for the proposal.
        let mut model = voting();
        model.set_counter(stripe("k"), micros(5_000));
        let ahead = acquire(US, micros(7_000), 1);
        assert_eq!(model.run(&ahead, at(0)), granted(micros(7_000).0, false));
    }

    #[test]
    fn a_poisoned_counter_silences_its_node_and_nothing_is_written() {
        for poison in [Token(Token::LARGEST.0 - 1), Token(u64::MAX)] {
            let mut model = voting();
            model.set_counter(stripe("k"), poison);
            let Reply::Refused {
                message,
                is_untouched: true,
            } = model.run(&acquire(US, Token(9), 3), at(0))
            else {
                panic!("it is granted")
            };
            assert!(
                message.starts_with("REDLOCK counter beyond 2^52"),
                "{message}"
            );
            assert_eq!(model.key("k", at(0).now), None);
            assert_eq!(model.counter(stripe("k")), poison);
        }
        let mut model = voting();
        model.set_counter(stripe("k"), Token::HIGHEST_PLAUSIBLE);
        assert_eq!(
            model.run(&acquire(US, Token(9), 1), at(0)),
            granted(Token::HIGHEST_PLAUSIBLE.0 + 1, false)
        );
        // What holds no counter must not be taken for low.
        model.set_counter(3, Token(u64::MAX));
        let probed = model.run(&Request::Probe, at(0));
        assert!(matches!(probed, Reply::Refused { .. }), "{probed:?}");
    }

    #[test]
    fn an_extension_never_shortens_and_writes_only_what_is_too_short() {
        let mut model = voting();
        model.run(&acquire(US, Token(9), 1), at(0));
        let expires = |model: &Model| model.key("k", at(0).now).unwrap().expires;
        assert_eq!(
            model.run(&extend(US, TTL, None), at(0)),
            extended(TTL, None)
        );
        assert_eq!(expires(&model), Some(at(5_000).now));
        let remaining = Duration::from_secs(4);
        assert_eq!(
            model.run(&extend(US, TTL, None), at(1_000)),
            extended(remaining, None)
        );
        assert_eq!(expires(&model), Some(at(7_000).now));
        // A key that never expires lives for long enough.
        let key = Key {
            owner: Some(US),
            expires: None,
        };
        model.set_key("k".into(), Some(key));
        assert_eq!(
            model.run(&extend(US, TTL, None), at(0)),
            Reply::Extended {
                remaining: None,
                first: None,
                has_remote_waiter: false
            }
        );
        assert_eq!(expires(&model), None);
    }

    #[test]
    fn a_key_is_put_back_only_where_there_is_none() {
        let mut model = voting();
        assert_eq!(model.run(&put_back(US), at(0)), Reply::PutBack);
        assert_eq!(model.run(&put_back(US), at(1_000)), Reply::PutBack);
        assert_eq!(
            model.key("k", at(0).now).unwrap().expires,
            Some(at(5_000).now)
        );
        let refused = model.run(&put_back(THEM), at(1_000));
        assert_eq!(refused, held(US, Duration::from_secs(4)));
        assert_eq!(model.counter(stripe("k")), Token(0));
    }

    #[test]
    fn votes_count_for_one_admission() {
        let mut model = voting();
        let votes = [
            acquire(US, Token(9), 1),
            extend(US, TTL, None),
            put_back(US),
        ];
        model.lose_memory();
        for vote in &votes {
            assert_eq!(model.run(vote, at(0)), Reply::NotAdmitted);
        }
        assert_eq!(model.keys(at(0).now).count(), 0);
    }

    #[test]
    fn a_waiter_hint_names_the_key_and_a_process_and_lasts_for_a_second() {
        let waiting = |millis| {
            let mut model = voting();
            model.run(&acquire(US, Token(9), 1), at(0));
            model.run(&acquire(THEM, Token(9), 1), at(millis));
            model
        };
        let has_waiter = |model: &mut Model, owner, millis| {
            model.run(&release(US), at(millis));
            let reply = model.run(&acquire(owner, Token(9), 1), at(millis));
            reply == granted(10, true)
        };
        assert!(has_waiter(&mut waiting(0), US_AGAIN, 1_999));
        assert!(!has_waiter(&mut waiting(0), US_AGAIN, 2_000));
        // A process is not told of itself.
        assert!(!has_waiter(&mut waiting(0), THEM, 0));
        // One hint in a second is enough.
        let mut model = waiting(0);
        model.run(&acquire(THIRD, Token(9), 1), at(999));
        assert!(has_waiter(&mut model, THIRD, 999));
        let mut model = waiting(0);
        model.run(&acquire(THIRD, Token(9), 1), at(1_000));
        assert!(!has_waiter(&mut model, THIRD, 1_000));
    }

    #[test]
    fn a_hint_of_the_holders_own_process_gives_way() {
        let mut model = voting();
        model.run(&acquire(US, Token(9), 1), at(0));
        model.run(&acquire(US_AGAIN, Token(9), 1), at(0));
        let extended = model.run(&extend(US, Duration::ZERO, None), at(0));
        assert_eq!(extended, self::extended(TTL, None));
        model.run(&acquire(THEM, Token(9), 1), at(0));
        let extended = model.run(&extend(US, Duration::ZERO, None), at(0));
        let Reply::Extended {
            has_remote_waiter: true,
            ..
        } = extended
        else {
            panic!("{extended:?}")
        };
    }

    #[test]
    fn the_longest_ttl_is_kept_for_this_period_and_the_one_before() {
        let mut model = voting();
        let longest = |model: &Model, millis| model.record(at(millis)).longest;
        let vote = |model: &mut Model, seconds, millis| {
            model.set_key("k".into(), None);
            let mut request = acquire(US, micros(millis), 1);
            if let Request::Acquire { ttl, .. } = &mut request {
                *ttl = Duration::from_secs(seconds);
            }
            model.run(&request, at(millis));
        };
        assert_eq!(longest(&model, 0), Duration::ZERO);
        vote(&mut model, 50, 0);
        vote(&mut model, 5, 59_999);
        assert_eq!(longest(&model, 59_999), Duration::from_secs(50));
        vote(&mut model, 5, 60_000);
        assert_eq!(longest(&model, 119_999), Duration::from_secs(50));
        assert_eq!(longest(&model, 120_000), Duration::from_secs(5));
        vote(&mut model, 6, 120_000);
        assert_eq!(longest(&model, 120_000), Duration::from_secs(6));
        // Nothing is forgotten before another vote has begun a new period.
        assert_eq!(longest(&model, 1_000_000), Duration::from_secs(6));
        // A client whose clock is behind begins none.
        let mut behind = model.clone();
        behind.set_key("k".into(), None);
        behind.run(&acquire(US, micros(0), 1), at(1_000_000));
        assert_eq!(longest(&behind, 1_000_000), Duration::from_secs(6));
        // So what was voted for since the last period may be as long as that.
        vote(&mut model, 5, 1_000_000);
        assert_eq!(longest(&model, 1_059_999), Duration::from_secs(6));
        vote(&mut model, 5, 1_060_000);
        assert_eq!(longest(&model, 1_060_000), Duration::from_secs(5));
    }

    #[test]
    fn an_extension_raises_the_longest_to_what_it_wrote() {
        let mut model = voting();
        model.run(&acquire(US, Token(9), 1), at(0));
        model.run(&extend(US, TTL, None), at(0));
        assert_eq!(model.record(at(0)).longest, TTL);
        model.run(&extend(US, TTL, None), at(1));
        assert_eq!(model.record(at(1)).longest, Duration::from_secs(6));
    }

    #[test]
    fn a_node_votes_again_no_sooner_than_the_evidence_says() {
        let mut model = voting();
        model.run(&acquire(US, Token(900), 1), at(0));
        model.lose_memory();
        let noted = record(model.run(&report("a", LOSS), at(1_000)));
        let loss = noted.loss.unwrap();
        assert_eq!(
            (loss.id, loss.is_unflushed, loss.age),
            (LOSS, false, Duration::ZERO)
        );
        // The first report stands.
        let noted = record(model.run(&report("a", LossId(9)), at(1_500)));
        assert_eq!(noted.loss.unwrap().id, LOSS);
        assert_eq!(noted.loss.unwrap().age, Duration::from_millis(500));

        let mut admit = admit("a", waited(1_000));
        if let Request::Admit { floor, .. } = &mut admit {
            *floor = Token(900);
        }
        assert_eq!(
            record(model.run(&admit, at(1_999))),
            model.record(at(1_999))
        );
        let admission = ADMISSION;
        assert_eq!(model.run(&admit, at(2_000)), Reply::Admitted { admission });
        let votes = record(model.run(&Request::Probe, at(2_000)));
        assert_eq!((votes.loss, votes.top), (None, Token(900)));
        assert_eq!(
            model.run(&acquire(US, Token(0), 1), at(2_000)),
            granted(901, false)
        );
    }

    #[test]
    fn evidence_of_another_loss_is_worth_nothing() {
        let mut model = Model::new(name("a"));
        model.run(&report("a", LossId(9)), at(0));
        let reply = model.run(&admit("a", waited(0)), at(100_000));
        assert_eq!(record(reply).loss.unwrap().id, LossId(9));
    }

    #[test]
    fn of_first_starts_the_longest_wait_counts() {
        let mut model = Model::new(name("a"));
        model.run(&report("a", LOSS), at(0));
        let first_start = |millis| {
            let wait = Duration::from_millis(millis);
            admit("a", Evidence::FirstStart { loss: LOSS, wait })
        };
        for (wait, noted, now) in [(500, 500, 0), (700, 700, 0), (500, 700, 699)] {
            let reply = record(model.run(&first_start(wait), at(now)));
            let noted = Duration::from_millis(noted);
            assert_eq!(reply.loss.unwrap().first_start, Some(noted));
        }
        let reply = model.run(&first_start(500), at(700));
        assert!(matches!(reply, Reply::Admitted { .. }), "{reply:?}");
    }

    #[test]
    fn the_marker_of_another_process_is_a_loss_unless_all_was_on_disk() {
        let mut model = voting();
        model.run(&acquire(US, Token(900), 1), at(0));
        model.restart(name("b"));
        let mut durable = model.clone();

        let noted = record(model.run(&report("b", LossId(9)), at(0)));
        assert_eq!(noted.marker, None);
        assert!(noted.loss.unwrap().is_unflushed);
        assert_eq!(noted.top, Token(900));

        let evidence = |admission| admit("b", Evidence::Durable { admission });
        let reply = durable.run(&evidence(AdmissionId(6)), at(0));
        assert_eq!(record(reply).marker.unwrap().server, name("a"));
        let reply = durable.run(&evidence(ADMISSION), at(0));
        assert!(matches!(reply, Reply::Admitted { .. }), "{reply:?}");
        let record = durable.record(at(0));
        assert_eq!(record.marker.unwrap().server, name("b"));
        assert_eq!((record.top, record.longest), (Token(900), TTL));
    }

    #[test]
    fn a_marker_stands_for_who_cannot_tell_processes_apart() {
        let mut model = voting();
        let Request::ReportLoss {
            loss,
            beside_marker,
            max_ttl,
            ..
        } = report("a", LossId(9))
        else {
            unreachable!()
        };
        let blind = Request::ReportLoss {
            server: None,
            loss,
            beside_marker,
            max_ttl,
        };
        assert!(record(model.run(&blind, at(0))).marker.is_some());
        let mut request = admit("a", waited(0));
        if let Request::Admit {
            server, admission, ..
        } = &mut request
        {
            *server = None;
            *admission = AdmissionId(1);
        }
        let admission = ADMISSION;
        assert_eq!(model.run(&request, at(0)), Reply::Admitted { admission });
    }

    #[test]
    fn a_loss_that_comes_back_with_old_data_says_nothing() {
        let mut model = Model::new(name("a"));
        model.run(&report("a", LOSS), at(0));
        let mut old = model.clone();
        let reply = model.run(&admit("a", waited(0)), at(60_000));
        assert!(matches!(reply, Reply::Admitted { .. }), "{reply:?}");
        model.run(&acquire(US, Token(9), 1), at(60_000));

        old.restart(name("b"));
        assert_eq!(record(old.run(&Request::Probe, at(60_001))).loss, None);
        let reply = old.run(&admit("b", waited(60_000)), at(60_001));
        assert_eq!(record(reply).marker, None);
        let noted = record(old.run(&report("b", LossId(9)), at(60_001)));
        assert_eq!(noted.loss.unwrap().age, Duration::ZERO);
    }

    #[test]
    fn clients_of_other_libraries_exclude_and_are_excluded() {
        let mut model = voting();
        let key: Arc<str> = "k".into();
        let now = at(0).now;
        assert!(model.set_foreign(&key, "theirs", None, now));
        assert!(!model.set_foreign(&key, "others", None, now));
        let refused = Reply::Held {
            owner: None,
            remaining: None,
        };
        assert_eq!(model.run(&acquire(US, Token(9), 1), at(0)), refused);
        let owner = None;
        let watch = Request::Watch { key, owner };
        assert_eq!(model.run(&watch, at(0)), Reply::Taken { owner });
        assert!(!model.delete_foreign("k", "others", now));
        assert!(model.delete_foreign("k", "theirs", now));
        assert_eq!(model.run(&watch, at(0)), Reply::Free);
        model.run(&acquire(US, Token(9), 1), at(0));
        assert!(!model.delete_foreign("k", "theirs", now));
    }
}
