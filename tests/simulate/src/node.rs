//! A server: the reference model of a node, and what can go wrong with it.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use redlock_protocol::{
    Act, AdmissionId, Evidence, Facts, Instant, LossId, Owner, Record, Reply, Request, Token,
    line_key,
    model::{Key, Model, Moment},
    stripe,
};

use crate::{
    EPOCH, MICRO, MILLI,
    checker::Tag,
    clock::Clock,
    made::{Effect, Parts},
    names::{KEYS, POOL, index_of, names},
    network::Arrival,
    plan::{Plan, Wall},
    random::Random,
    sickness::Sickness,
};

#[derive(Debug, Default)]
pub(crate) struct Node {
    number: usize,
    pub(crate) clock: Clock,
    /// What its wall clock shows when its clock shows nothing, in microseconds.
    wall_origin: u64,
    /// The sum of its clock's steps back.
    pub(crate) stepped_back: u64,
    /// The sum of its clock's steps forward.
    pub(crate) stepped_forward: u64,
    /// By how much its clock is ahead of itself without its steps.
    ahead: u64,
    model: Model,
    /// What it has on disk.
    snapshot: (Model, [Parts; KEYS]),
    names: [Arc<str>; KEYS],
    /// The attempts that made the keys that it has.
    made: [Parts; KEYS],
    /// Another one after each restart, which its name says.
    pub(crate) process: u64,
    server: Arc<str>,
    /// The processes that had the same memory before.
    predecessors: Vec<Arc<str>>,
    /// By its own clock.
    booted: u64,
    pub(crate) is_durable: bool,
    pub(crate) tells_changes: bool,
    evicts: bool,
    /// The connections that have read each key, and are told when it changes.
    readers: [Vec<usize>; KEYS],
    /// What those of them have to be told that the last request was not from.
    pub(crate) told: Vec<(usize, Arc<str>)>,
    /// Where callers wait for permits, and the connections that have read it.
    line: (Arc<str>, Vec<usize>),
    /// The keys that were found to have expired.
    pub(crate) vanished: Vec<usize>,
    /// It has voted without interruption, or with counters that make up for what it has lost.
    pub(crate) remembers: bool,
    /// The true time at which it last lost its memory.
    pub(crate) lost_at: u64,
    /// The true time at which some client noted that it must not vote.
    noted_at: Option<u64>,
    /// Which of the scripts its cache holds.
    scripts: [bool; SCRIPTS],
    pub(crate) down: bool,
    /// Reads nothing before this time; what arrives waits in the backlog.
    pub(crate) silent_until: u64,
    pub(crate) backlog: VecDeque<Arrival>,
    /// Takes so much longer for every message until then.
    pub(crate) slow_by: u64,
    pub(crate) slow_until: u64,
    pub(crate) sickness: Sickness,
    /// The connections that were made to it and have not broken.
    pub(crate) connections: Vec<usize>,
    /// It has been admitted as the process that it is.
    votes: bool,
    /// The last true time at which something was wrong with it.
    pub(crate) troubled: u64,
}

/// What is left of a node's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    /// What it had on disk.
    Snapshot,
    Everything,
}

/// An error reply of a node that has done nothing.
pub(crate) fn refused(words: &str) -> Reply {
    Reply::Refused {
        reason: redlock_protocol::Rejection::Other,
        message: words.into(),
        is_untouched: true,
    }
}

const SCRIPTS: usize = 9;

/// The scripts before this one are votes.
const FIRST_WITHOUT_VOTE: usize = 4;

impl Node {
    pub(crate) fn new(number: usize, plan: &Plan, random: &mut Random) -> Self {
        let clock = Plan::clock(random);
        let shown = clock.read(0);
        let away = match plan.wall {
            Wall::Near => random.below(plan.skew / MICRO + 1),
            Wall::Stopped => random.below(1_000_000),
            Wall::Anywhere if plan.servers.days_apart => {
                random.pick(&[0, 86_400_000_000]) + random.below(1_000_000)
            }
            Wall::Anywhere => random.below(1_000_000),
        };
        let servers = &plan.servers;
        let is_in = |mask: u8| mask & 1 << number != 0;
        Self {
            number,
            booted: if servers.young { shown } else { 0 },
            clock,
            wall_origin: EPOCH + away - shown / MICRO,
            model: Model::new(Some(server(number, 0))),
            snapshot: (Model::new(None), Default::default()),
            names: names(plan.fleet.permits.is_some()),
            line: (line_key(POOL), Vec::new()),
            server: server(number, 0),
            is_durable: is_in(servers.durable),
            tells_changes: !is_in(servers.quiet),
            evicts: servers.evicting == Some(number),
            remembers: true,
            ..Self::default()
        }
    }

    // ---- what goes wrong

    /// What a client does on each new connection, and when it asks who the node is.
    pub(crate) const fn load_scripts(&mut self) {
        self.scripts = [true; SCRIPTS];
    }

    /// False if the node does not know the script of a request that is sent again with its text.
    pub(crate) fn learns_script(&mut self, request: &Request) -> bool {
        let script = script(request).filter(|&script| script >= FIRST_WITHOUT_VOTE);
        script.is_none_or(|script| std::mem::replace(&mut self.scripts[script], true))
    }

    pub(crate) const fn flush_scripts(&mut self) {
        self.scripts = [false; SCRIPTS];
    }

    /// Ends the process. The next one's memory is what is left of this one's.
    pub(crate) fn restart(&mut self, left: Left, at: u64) {
        match left {
            Left::Nothing => (self.model, self.made) = (Model::new(None), Default::default()),
            Left::Snapshot => (self.model, self.made) = self.snapshot.clone(),
            Left::Everything => {}
        }
        for index in 0..KEYS {
            self.expire(index, at);
            if left == Left::Snapshot {
                // Its owner may have released it since.
                self.made[index].mark_orphans(|_| true);
            }
        }
        self.process += 1;
        let before = std::mem::replace(&mut self.server, server(self.number, self.process));
        self.predecessors.push(before);
        if left != Left::Everything {
            self.predecessors.clear();
            self.remembers = false;
            self.lost_at = at;
        }
        self.model.restart(Some(Arc::clone(&self.server)));
        self.noted_at = None;
        self.look_who_votes(at);
        self.booted = self.clock.read(at);
        self.readers = Default::default();
        self.line.1.clear();
    }

    /// `FLUSHALL`: the process, its scripts and connections are the same.
    pub(crate) fn flush(&mut self, at: u64) {
        self.model.lose_memory();
        self.noted_at = None;
        self.votes = false;
        self.made = Default::default();
        self.readers = Default::default();
        self.line.1.clear();
        self.remembers = false;
        self.lost_at = at;
    }

    /// A step of its clock that leaves it ahead by so much.
    pub(crate) fn set_ahead(&mut self, at: u64, ahead: u64) {
        match ahead.checked_sub(self.ahead) {
            Some(forward) => {
                self.clock.step_forward(at, forward);
                self.stepped_forward += forward;
            }
            None => {
                self.clock.step_back(at, self.ahead - ahead);
                self.stepped_back = self.stepped_back.max(self.ahead - ahead);
            }
        }
        self.ahead = ahead;
    }

    pub(crate) fn save(&mut self) {
        self.snapshot = (self.model.clone(), self.made.clone());
    }

    /// Only raises a counter: one that goes back is a loss of memory.
    pub(crate) fn poison(&mut self, index: usize, value: u64) {
        let stripe = stripe(&self.names[index]);
        let value = Token(value).max(self.model.counter(stripe));
        self.model.set_counter(stripe, value);
    }

    /// Some process with this longest lease, which is no more, has noted that it must not vote.
    pub(crate) fn note_loss(&mut self, max_ttl: Duration, at: u64) {
        let report = Request::ReportLoss {
            server: Some(Arc::clone(&self.server)),
            loss: LossId(at),
            beside_marker: true,
            max_ttl,
        };
        self.model.run(&report, self.moment(at));
        self.noted_at.get_or_insert(at);
    }

    /// And has let it vote.
    pub(crate) fn admit(&mut self, max_ttl: Duration, at: u64) {
        self.note_loss(max_ttl, at);
        let loss = self.record(at).loss.map_or(LossId(at), |loss| loss.id);
        let wait = Duration::ZERO;
        let admit = Request::Admit {
            server: Some(Arc::clone(&self.server)),
            evidence: Evidence::Waited { loss, wait },
            admission: AdmissionId(1),
            floor: Token(1),
            wall_micros: 0,
            is_durable: false,
            max_ttl,
        };
        self.model.run(&admit, self.moment(at));
        self.look_who_votes(at);
    }

    // ---- what it is

    pub(crate) fn moment(&self, at: u64) -> Moment {
        let shown = self.clock.read(at);
        Moment {
            now: Instant::from_nanos(shown / MILLI * MILLI),
            wall_micros: self.wall_origin + shown / MICRO,
        }
    }

    pub(crate) fn record(&self, at: u64) -> Record {
        self.model.record(self.moment(at))
    }

    /// What it replies to who asks for its record, unless it refuses.
    pub(crate) fn told_record(&self, at: u64) -> Option<Record> {
        let record = self.record(at);
        let is_poisoned = record.top > Token::LARGEST;
        let refuses = is_poisoned || self.sickness.refusal(&Request::Probe).is_some();
        (!refuses).then_some(record)
    }

    /// When a loss of memory was found of which it did not tell by itself.
    pub(crate) fn found_late_at(&self) -> Option<u64> {
        self.noted_at.filter(|_| !self.tells_changes)
    }

    pub(crate) const fn votes(&self) -> bool {
        self.votes
    }

    fn look_who_votes(&mut self, at: u64) {
        let Record { marker, loss, .. } = self.record(at);
        // Beside a loss only some clients count on it.
        self.votes = marker.filter(|_| loss.is_none()).is_some_and(|marker| {
            let server = marker.server;
            server.is_none_or(|server| server == self.server || self.predecessors.contains(&server))
        });
    }

    /// What it tells of itself when a connection is made.
    pub(crate) fn facts(&self, is_blind: bool, at: u64) -> Facts {
        let uptime = Duration::from_nanos(self.clock.read(at).saturating_sub(self.booted));
        Facts {
            server: (!is_blind).then(|| Arc::clone(&self.server)),
            uptime: (!is_blind).then(|| Duration::from_secs(uptime.as_secs())),
            is_durable: self.is_durable && !is_blind,
            tells_changes: self.tells_changes,
            evicts: self.evicts.then(|| "allkeys-lru".into()),
        }
    }

    pub(crate) fn key(&self, index: usize, at: u64) -> Option<Key> {
        let now = self.moment(at).now;
        self.model.key(&self.names[index], now)
    }

    /// What an owner has under a key.
    pub(crate) fn part(&self, index: usize, owner: Option<Owner>, at: u64) -> Option<Key> {
        owner?;
        let mut parts = self.parts(index, at).into_iter();
        parts.find(|part| part.owner == owner && part.lives(self.moment(at).now))
    }

    /// What all of them have, also what has expired since the key was written.
    pub(crate) fn parts(&self, index: usize, at: u64) -> Vec<Key> {
        self.model.parts(&self.names[index], self.moment(at).now)
    }

    pub(crate) const fn made(&self, index: usize) -> &Parts {
        &self.made[index]
    }

    /// Nobody will come for what this owner has.
    pub(crate) fn mark_orphan(&mut self, index: usize, owner: Owner) {
        self.made[index].mark_orphans(|made| made.owner == Some(owner));
    }

    // ---- requests

    pub(crate) fn run(
        &mut self,
        connection: usize,
        is_blind: bool,
        request: &Request,
        tag: Tag,
        at: u64,
    ) -> (Reply, Effect) {
        if let Some(words) = self.sickness.refusal(request) {
            if let Sickness::Loading(left) = self.sickness {
                self.sickness = match left {
                    0 | 1 => Sickness::Healthy,
                    left => Sickness::Loading(left - 1),
                };
            }
            return (refused(words), Effect::Nothing);
        }
        if *request == Request::Identify {
            self.load_scripts();
            let server = (!is_blind).then(|| Arc::clone(&self.server));
            return (Reply::Identity { server }, Effect::Nothing);
        }
        if let Some(script) = script(request)
            && !self.scripts[script]
        {
            // The client asks who the node is before it asks for a vote again.
            return (Reply::NotAdmitted, Effect::Nothing);
        }
        if let Sickness::Garbling(left) = self.sickness {
            self.sickness = match left {
                0 | 1 => Sickness::Healthy,
                left => Sickness::Garbling(left - 1),
            };
            let mut effect = Effect::Nothing;
            if left.is_multiple_of(2) {
                effect = self.execute((connection, is_blind), request, tag, at).1;
            }
            let answer = "-1".into();
            return (Reply::Garbled { answer }, effect);
        }
        self.execute((connection, is_blind), request, tag, at)
    }

    fn execute(
        &mut self,
        (connection, is_blind): (usize, bool),
        request: &Request,
        tag: Tag,
        at: u64,
    ) -> (Reply, Effect) {
        let moment = self.moment(at);
        let before = self.model.key(&self.line.0, moment.now);
        let replied = self.execute_on_key((connection, is_blind), request, tag, at);
        if let Request::Watch { key, .. } = request
            && *key == self.line.0
            && self.tells_changes
        {
            self.line.1.push(connection);
        }
        if self.model.key(&self.line.0, moment.now) != before {
            let others = self.line.1.drain(..).filter(|&reader| reader != connection);
            let name = &self.line.0;
            self.told
                .extend(others.map(|reader| (reader, Arc::clone(name))));
        }
        replied
    }

    /// For a user who may not read `INFO`, scripts cannot tell in which process they run.
    fn run_model(&mut self, is_blind: bool, request: &Request, moment: Moment) -> Reply {
        let hidden = self.model.server.take_if(|_| is_blind);
        let reply = self.model.run(request, moment);
        self.model.server = self.model.server.take().or(hidden);
        reply
    }

    fn execute_on_key(
        &mut self,
        (connection, is_blind): (usize, bool),
        request: &Request,
        tag: Tag,
        at: u64,
    ) -> (Reply, Effect) {
        let moment = self.moment(at);
        let key = request.key().filter(|key| **key != self.line.0);
        let Some(index) = key.map(|key| index_of(key)) else {
            let reply = self.run_model(is_blind, request, moment);
            if matches!(request, Request::ReportLoss { .. }) {
                self.noted_at.get_or_insert(at);
            }
            self.look_who_votes(at);
            return (reply, Effect::Nothing);
        };
        self.expire(index, at);
        let before = self.parts(index, at);
        let reply = self.run_model(is_blind, request, moment);
        let after = self.parts(index, at);
        if matches!(request, Request::Watch { .. })
            && self.tells_changes
            && !self.readers[index].contains(&connection)
        {
            self.readers[index].push(connection);
        }
        let made = &mut self.made[index];
        let did = (request, tag, &reply);
        let (effect, has_expired) = made.follow((&before, &after), did, (moment.now, at));
        if has_expired {
            self.vanished.push(index);
        }
        if before != after {
            self.tell(index, Some(connection));
        }
        (reply, effect)
    }

    /// Redis drops a key that has expired when it is asked for it, and then tells everybody.
    fn expire(&mut self, index: usize, at: u64) {
        if !self.made[index].is_empty() && self.key(index, at).is_none() {
            self.made[index] = Parts::default();
            // For good: not until the clock steps back.
            self.model.set_key(Arc::clone(&self.names[index]), None);
            self.vanished.push(index);
            self.tell(index, None);
        }
    }

    /// What Redis does by itself some time after a key has expired.
    pub(crate) fn expire_all(&mut self, at: u64) {
        for index in 0..KEYS {
            self.expire(index, at);
        }
    }

    /// Who has read a key is told once, but not of its own changes.
    fn tell(&mut self, index: usize, by: Option<usize>) {
        let readers = self.readers[index].drain(..);
        let others = readers.filter(|&reader| Some(reader) != by);
        let name = &self.names[index];
        self.told
            .extend(others.map(|reader| (reader, Arc::clone(name))));
    }

    // ---- clients of other libraries

    /// `SET NX PX`. True if there was no key.
    pub(crate) fn set_foreign(
        &mut self,
        index: usize,
        value: &str,
        ttl: Option<Duration>,
        at: u64,
    ) -> bool {
        self.expire(index, at);
        let now = self.moment(at).now;
        let set = self.model.set_foreign(&self.names[index], value, ttl, now);
        if set {
            self.made[index] = Parts::of_foreign();
            self.tell(index, None);
        }
        set
    }

    /// Compare and delete.
    pub(crate) fn delete_foreign(&mut self, index: usize, value: &str, at: u64) -> bool {
        self.expire(index, at);
        let now = self.moment(at).now;
        let is_deleted = self.model.delete_foreign(&self.names[index], value, now);
        if is_deleted {
            self.made[index] = Parts::default();
            self.tell(index, None);
        }
        is_deleted
    }
}

fn server(number: usize, process: u64) -> Arc<str> {
    format!("node {number}, process {process}").into()
}

/// The script that a request is, if it is one.
const fn script(request: &Request) -> Option<usize> {
    match request {
        Request::Vote(_, Act::Acquire(None)) => Some(0),
        Request::Vote(_, Act::Acquire(_)) => Some(1),
        Request::Vote(_, Act::Extend { .. }) => Some(2),
        Request::Vote(_, Act::PutBack) => Some(3),
        Request::Release { .. } => Some(4),
        Request::Probe => Some(5),
        Request::ReportLoss { .. } => Some(6),
        Request::Admit { .. } => Some(7),
        Request::Stand { .. } => Some(8),
        Request::Identify | Request::Watch { .. } => None,
    }
}
