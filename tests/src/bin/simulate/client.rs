//! A process: one engine with its protocol, and callers that ask it for locks, work under them,
//! and let go or forget to.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
};

use crate::{
    MICRO, MILLI, SECOND,
    agenda::Happening,
    checker::{Belief, Invariant},
    clock::Clock,
    faults::Harm,
    network::{Arrival, Link},
    node::{NAMES, Node},
    plan::{Plan, Profile, nanos},
    protocol::{
        Action, Answer, Drained, Event, Instant, LeaseId, Loss, Outcome, Outside, Owner, Protocol,
        Refusal, Settings, Terms, Token,
    },
    random::Random,
    store::Holder,
    trace,
    world::{Phase, World},
};

/// How much later than it should an engine wakes, and how much time work in it takes.
const SLACK: u64 = 5 * MILLI;

/// When histories begin by the wall, in microseconds.
const EPOCH: u64 = 1_800_000_000_000_000;

pub(crate) struct Client {
    protocol: Protocol,
    pub(crate) clock: Clock,
    pub(crate) links: Vec<Link>,
    /// Which of the processes in this place it is.
    pub(crate) incarnation: u32,
    tasks: Vec<Task>,
    leases: u64,
    pub(crate) paused: bool,
    pub(crate) paused_until: u64,
    /// What comes in meanwhile.
    pub(crate) inbox: VecDeque<Arrival>,
    slept_through: bool,
    /// The true time of the next wake-up that is scheduled.
    pub(crate) wake_at: Option<u64>,
    /// The sum of what pauses and standing clocks have cost: answers may be so much later.
    pub(crate) delayed: u64,
    /// When a shutdown must be over.
    pub(crate) shut_down: Option<ShutDown>,
}

/// A true time, which pauses of the client move.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    at: u64,
    delayed: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ShutDown {
    by: Limit,
    /// By the client's clock: not before this time, unless nothing is left to do.
    until: u64,
}

#[derive(Debug)]
struct Task {
    /// The true time of its last question.
    asked: u64,
    stage: Stage,
    lease: LeaseId,
    key: usize,
    terms: Terms,
    /// Counts what it has done, so that what it meant to do before is not done.
    turn: u32,
    owner: Option<Owner>,
    /// By the client's clock.
    granted: u64,
    /// When it must have heard what became of the extension that it asked for.
    extending: Option<Limit>,
    /// What it has read from the store and not written yet.
    read: Option<u64>,
    token: Token,
    fenced: AtStore,
    /// The keys it still has to ask for while all is calm.
    errands: usize,
}

/// How far a holder is at the fenced store.
#[derive(Clone, Copy, Debug)]
enum AtStore {
    ToRead,
    ToWrite { read: u64 },
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// The clock says so, or the engine.
    Yes,
    No,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Idle,
    Asking {
        by: Limit,
    },
    Holding {
        deadline: Instant,
        until: u64,
    },
    /// The lease is over, and the holder has not let go yet.
    Stuck,
    Releasing {
        by: Limit,
        over: Over,
    },
}

impl Client {
    pub(crate) fn is_busy(&self) -> bool {
        self.tasks
            .iter()
            .any(|task| matches!(task.stage, Stage::Asking { .. } | Stage::Holding { .. }))
    }

    /// Nobody of it wants anything, and it is connected to all nodes.
    pub(crate) fn is_at_rest(&self) -> bool {
        let idle = |task: &Task| matches!(task.stage, Stage::Idle) && task.errands == 0;
        !self.paused
            && self.shut_down.is_none()
            && self.links.iter().all(|link| link.up)
            && self.tasks.iter().all(idle)
    }

    /// So long from now, not counting the time for which the clock is going to stand still.
    fn limit(&self, now: u64, span: u64) -> Limit {
        Limit {
            at: self.clock.runs_from(now) + Limit::true_span(span) + SLACK,
            delayed: self.delayed,
        }
    }

    fn is_past(&self, limit: Limit, now: u64) -> bool {
        now > limit.at + (self.delayed - limit.delayed)
    }
}

impl Limit {
    /// How long something may take that must take no longer by the client's clock.
    fn true_span(span: u64) -> u64 {
        span + span / 200
    }
}

impl World {
    pub(crate) fn new_client(&mut self, incarnation: u32, clock: Clock) -> Client {
        let mut chance = Random::new(self.random.next());
        let random = move || u128::from(chance.next()) << 64 | u128::from(chance.next());
        let now = Instant::from_nanos(clock.read(self.now));
        let settings = Settings {
            silence_limit: nanos(self.plan.silence_limit),
            may_evict: false,
            quarantine: self.plan.quarantine(),
            fresh_quarantine: self.plan.quarantine(),
            busy_from: self.plan.busy_from,
        };
        let skew = self.plan.skew / MICRO;
        let behind = self.random.below(2 * skew);
        let mut chance = Random::new(self.random.next());
        let wall = Arc::clone(&self.wall);
        let timeless = self.plan.timeless;
        let wall_micros = move || {
            if timeless {
                return behind % 1_000 + chance.below(1_000);
            }
            // Always off by the same, but for steps.
            let behind = match chance.below(8) {
                0 => chance.below(2 * skew),
                _ => behind,
            };
            EPOCH + wall.load(Ordering::Relaxed) + skew - behind
        };
        let outside = Outside {
            random: Box::new(random),
            wall_micros: Box::new(wall_micros),
        };
        let protocol = Protocol::new(self.plan.nodes, settings, outside, now);
        let tasks = (0..self.plan.tasks).map(|task| Task {
            stage: Stage::Idle,
            lease: LeaseId(task as u64),
            key: 0,
            terms: self.plan.calm_terms(0),
            turn: 0,
            owner: None,
            asked: 0,
            granted: 0,
            extending: None,
            read: None,
            token: Token::default(),
            fenced: AtStore::Done,
            errands: 0,
        });
        let tasks = tasks.collect();
        Client {
            protocol,
            clock,
            links: self.links(),
            incarnation,
            tasks,
            leases: 0,
            paused: false,
            paused_until: 0,
            inbox: VecDeque::new(),
            slept_through: false,
            wake_at: None,
            delayed: 0,
            shut_down: None,
        }
    }

    /// Lets a new client begin.
    pub(crate) fn start(&mut self, client: usize) {
        self.carry_out(client);
        for task in 0..self.plan.tasks {
            let first = self.random.below(self.plan.think_longest + 2 * MILLI);
            self.schedule(client, task, first);
        }
    }

    /// The process ends where it stands, and another takes its place.
    pub(crate) fn restart(&mut self, client: usize) {
        trace!(self, "client {client} is no more");
        self.checker.forget_client(client);
        for connection in 0..self.connections.len() {
            self.give_up_of(connection, client);
        }
        let old = &self.clients[client];
        self.under_way -= old.inbox.len();
        let (clock, incarnation) = (old.clock.clone(), old.incarnation + 1);
        let turns: Vec<u32> = old.tasks.iter().map(|task| task.turn).collect();
        self.clients[client] = self.new_client(incarnation, clock);
        for (task, turn) in self.clients[client].tasks.iter_mut().zip(turns) {
            task.turn = turn + 1;
        }
        self.start(client);
    }

    pub(crate) fn handle(&mut self, client: usize, event: Event) {
        let one = &mut self.clients[client];
        let now = one.clock.read(self.now);
        trace!(self, "client {client} at {now}: {event:?}");
        let one = &mut self.clients[client];
        one.protocol.handle(event, Instant::from_nanos(now));
        self.carry_out(client);
    }

    fn carry_out(&mut self, client: usize) {
        let incarnation = self.clients[client].incarnation;
        while let Some(action) = self.clients[client].protocol.poll_action() {
            trace!(self, "client {client} -> {action:?}");
            match action {
                Action::Connect { node, connection } => self.connect(client, node, connection),
                Action::Disconnect { node } => self.disconnect(client, node),
                Action::Send {
                    node,
                    request,
                    body,
                    server,
                    with_source,
                } => {
                    let now = self.clients[client].clock.read(self.now);
                    let from = (client, incarnation);
                    let times = (now, self.now);
                    let what = (request, &body);
                    let seen = self.checker.on_send(from, node.0, what, with_source, times);
                    let (tag, broken) = seen;
                    if let Some((invariant, what)) = broken {
                        self.violation(invariant, what);
                    }
                    self.send(client, node, request, body, (server, with_source), tag);
                }
                Action::Answer { lease, answer } => self.answer(client, lease, answer),
                Action::NodeChanged { .. } => {}
                Action::Drained(left) => {
                    self.drained(client, left);
                    return;
                }
            }
        }
        self.arm(client);
    }

    // ---- waking

    /// Schedules the wake-up that the protocol wants, a little late as timers are.
    pub(crate) fn arm(&mut self, client: usize) {
        let one = &self.clients[client];
        let Some(next) = one.protocol.next_wakeup() else {
            return;
        };
        let at = one.clock.when(next.as_nanos()).max(self.now);
        if one.wake_at.is_some_and(|set| set <= at) || at == u64::MAX {
            return;
        }
        let late = self.random.below(2 * MILLI).saturating_sub(MILLI);
        self.clients[client].wake_at = Some(at + late);
        self.agenda.at(at + late, Happening::Wake { client });
    }

    pub(crate) fn wake(&mut self, client: usize) {
        let one = &mut self.clients[client];
        if one.wake_at != Some(self.now) {
            return;
        }
        one.wake_at = None;
        if one.paused {
            one.slept_through = true;
            return;
        }
        let now = Instant::from_nanos(one.clock.read(self.now));
        if one.protocol.next_wakeup().is_some_and(|next| next <= now) {
            self.handle(client, Event::Wakeup);
        } else {
            self.arm(client);
        }
    }

    /// Ends a pause: what came in first, or the wake-up that is long due.
    pub(crate) fn resume(&mut self, client: usize) {
        let one = &mut self.clients[client];
        if !one.paused || one.paused_until > self.now {
            return;
        }
        trace!(self, "client {client} goes on");
        let one = &mut self.clients[client];
        one.paused = false;
        let incarnation = one.incarnation;
        let slept_through = std::mem::take(&mut one.slept_through);
        if slept_through && self.random.chance(300) {
            self.handle(client, Event::Wakeup);
        }
        while self.clients[client].incarnation == incarnation
            && let Some(arrival) = self.clients[client].inbox.pop_front()
        {
            self.under_way -= 1;
            self.take_in(client, arrival);
        }
        self.arm(client);
    }

    // ---- callers

    fn schedule(&mut self, client: usize, task: usize, after: u64) {
        let one = &mut self.clients[client].tasks[task];
        one.turn += 1;
        let turn = one.turn;
        let happening = Happening::Turn { client, task, turn };
        self.agenda.at(self.now + after, happening);
    }

    /// A caller goes on.
    pub(crate) fn turn(&mut self, client: usize, task: usize, turn: u32) {
        let one = &self.clients[client];
        if one.tasks[task].turn != turn {
            return;
        }
        if one.paused_until > self.now || one.paused {
            let after = one.paused_until.saturating_sub(self.now);
            let late = self.random.below(MILLI / 5);
            let happening = Happening::Turn { client, task, turn };
            return self.agenda.at(self.now + after + late, happening);
        }
        if self.random.chance(30) {
            // More often than it should.
            self.handle(client, Event::Wakeup);
        }
        let one = &self.clients[client].tasks[task];
        match one.stage {
            _ if one.turn != turn => {}
            Stage::Idle => self.ask(client, task),
            Stage::Asking { .. } => {
                self.hit(Harm::CallerCancelled, Some(client));
                self.let_go(client, task, false);
            }
            Stage::Holding { deadline, until } => self.work(client, task, deadline, until),
            Stage::Stuck => {
                let report = self.random.chance(500);
                self.let_go(client, task, report);
            }
            Stage::Releasing { .. } => {}
        }
    }

    fn ask(&mut self, client: usize, task: usize) {
        let calm = self.phase == Phase::Calm;
        if self.phase != Phase::Faulty && self.clients[client].tasks[task].errands == 0 {
            return;
        }
        let terms = if calm {
            self.plan.calm_terms(self.stepped_back())
        } else {
            self.plan.terms(&mut self.random)
        };
        let one = &mut self.clients[client];
        one.leases += 1;
        let lease = LeaseId(one.leases * 16 + task as u64);
        let longest = (terms.wait + terms.round_timeout()).as_nanos() as u64;
        let by = one.limit(self.now, longest);
        let asking = &mut one.tasks[task];
        asking.key = self.random.index(self.plan.keys);
        if calm {
            asking.errands -= 1;
            asking.key = asking.errands;
        }
        asking.lease = lease;
        asking.terms = terms;
        asking.stage = Stage::Asking { by };
        asking.turn += 1;
        asking.asked = self.now;
        let key = asking.key;
        self.checker.ask(client, key, lease);
        if !calm && self.random.chance(self.plan.cancel) {
            let late = terms.wait.as_nanos() as u64 + 4 * MILLI;
            let after = self.random.pick(&[MILLI / 2, 4 * MILLI, late]);
            let after = self.random.below(after);
            self.schedule(client, task, after);
        }
        let key = NAMES[key].into();
        self.handle(client, Event::Ask { lease, key, terms });
    }

    /// One step of a section: reads, or writes what it has read, if the clock lets it.
    fn work(&mut self, client: usize, task: usize, deadline: Instant, until: u64) {
        let now = self.clients[client].clock.read(self.now);
        let one = &mut self.clients[client].tasks[task];
        let key = one.key;
        if now >= deadline.as_nanos() {
            // Not polled any more.
            let slower = |node: &Node| {
                self.clients[client]
                    .clock
                    .is_slower_by_percent(&node.clock, 5)
            };
            if self.nodes.iter().any(slower) {
                self.hit(Harm::ExpiredUnderDrift, Some(client));
            }
            return self.lose_hold(client, task);
        }
        match one.read.take() {
            Some(read) => {
                let stored = self.checker.store[key];
                self.checker.store[key] = stored + 1;
                if read != stored {
                    let what = format!("client {client} wrote over {}", stored - read);
                    self.violation(Invariant::LostUpdate, what);
                }
            }
            None => one.read = Some(self.checker.store[key]),
        }
        self.use_fenced(client, task);
        if self.now >= until {
            let report = self.phase == Phase::Calm || self.random.chance(500);
            return self.let_go(client, task, report);
        }
        self.schedule_step(client, task);
        if self.phase == Phase::Faulty && self.random.chance(self.plan.extend) {
            self.extend(client, task);
        }
    }

    /// The same at the fenced store, where a write may arrive at any time, also long after the
    /// lease.
    fn use_fenced(&mut self, client: usize, task: usize) {
        let one = &self.clients[client].tasks[task];
        let (key, token) = (one.key, one.token);
        let holder = self.holder(client, task);
        let after = match one.fenced {
            AtStore::Done => return,
            AtStore::ToRead => match self.checker.fenced[key].read(holder, token) {
                Some(read) => {
                    self.tally.fenced[0] += 1;
                    if let Err(wrong) = read {
                        self.on_fenced(holder, wrong);
                    }
                    read.map_or(AtStore::Done, |read| AtStore::ToWrite { read })
                }
                None => {
                    self.tally.fenced[1] += 1;
                    AtStore::Done
                }
            },
            AtStore::ToWrite { read } if self.random.chance(100) => {
                self.write_late(client, task, read);
                // It does nothing more before it has heard of this.
                AtStore::Done
            }
            AtStore::ToWrite { read } => {
                self.written(key, holder, token, read);
                AtStore::ToRead
            }
        };
        self.clients[client].tasks[task].fenced = after;
    }

    fn write_late(&mut self, client: usize, task: usize, read: u64) {
        let after = self.random.below(2 * self.plan.lease);
        let holder = self.holder(client, task);
        let one = &self.clients[client].tasks[task];
        let written = Happening::Written {
            key: one.key,
            holder,
            token: one.token,
            read,
        };
        self.agenda.at(self.now + after, written);
    }

    fn holder(&self, client: usize, task: usize) -> Holder {
        Holder {
            client,
            incarnation: self.clients[client].incarnation,
            lease: self.clients[client].tasks[task].lease,
        }
    }

    fn extend(&mut self, client: usize, task: usize) {
        let one = &self.clients[client];
        let (lease, terms) = (one.tasks[task].lease, one.tasks[task].terms);
        let by = one.limit(self.now, terms.round_timeout().as_nanos() as u64);
        self.clients[client].tasks[task].extending.get_or_insert(by);
        self.handle(client, Event::Extend { lease });
    }

    /// An extension that was asked for has come to something.
    fn extended(&mut self, client: usize, task: usize) {
        if let Some(by) = self.clients[client].tasks[task].extending.take() {
            self.in_time(client, by, "of an extension");
        }
    }

    /// The next step of a section: now and then at the last moment that the lease allows.
    fn schedule_step(&mut self, client: usize, task: usize) {
        let one = &self.clients[client];
        let Stage::Holding { deadline, until } = one.tasks[task].stage else {
            return;
        };
        let last = one.clock.when(deadline.as_nanos());
        let step = self.random.below(self.plan.lease / 6);
        let mut at = (self.now + step).min(until.max(self.now));
        if self.random.chance(200) && until > last {
            at = last.saturating_sub(self.random.below(300 * MICRO));
        }
        let after = at.saturating_sub(self.now);
        self.schedule(client, task, after);
    }

    /// The lease is over under its holder.
    fn lose_hold(&mut self, client: usize, task: usize) {
        let one = &mut self.clients[client].tasks[task];
        one.stage = Stage::Stuck;
        one.read = None;
        if let AtStore::ToWrite { read } = std::mem::replace(&mut one.fenced, AtStore::Done) {
            self.write_late(client, task, read);
        }
        let one = &self.clients[client].tasks[task];
        let (key, lease) = (one.key, one.lease);
        self.checker.disbelieve(key, client, lease);
        let mut after = self.random.below(200 * MICRO);
        if self.is_stuck_at_last(client, task) {
            // Until everybody else has had to get the lock.
            let terms = self.plan.calm_terms(self.stepped_back());
            after = terms.wait.as_nanos() as u64 + 2 * SECOND;
        } else if self.random.chance(self.plan.stuck) {
            after = self.random.below(2 * self.plan.lease);
        }
        self.schedule(client, task, after);
    }

    /// The one caller that keeps its lock while all is calm.
    fn is_stuck_at_last(&self, client: usize, task: usize) -> bool {
        let calm = self.plan.stuck_at_last && self.phase == Phase::Calm;
        calm && client == 0 && task == 0 && self.clients[0].tasks[0].errands + 1 == self.plan.keys
    }

    /// Ends a lease in whatever phase it is.
    fn let_go(&mut self, client: usize, task: usize, report: bool) {
        let now = self.clients[client].clock.read(self.now);
        let one = &self.clients[client].tasks[task];
        let (key, lease) = (one.key, one.lease);
        let over = match one.stage {
            Stage::Holding { deadline, .. } if now < deadline.as_nanos() => Over::No,
            _ => Over::Yes,
        };
        let rounds = one.terms.round_timeout().as_nanos() as u64;
        let by = self.clients[client].limit(self.now, rounds);
        self.extended(client, task);
        self.checker.leave(client, key, lease);
        self.checker.disbelieve(key, client, lease);
        let one = &mut self.clients[client].tasks[task];
        if let Some(owner) = one.owner.filter(|_| over == Over::No) {
            self.checker.end(client, lease, owner, self.now);
        }
        one.read = None;
        one.stage = if report {
            Stage::Releasing { by, over }
        } else {
            Stage::Idle
        };
        if !report {
            self.rest(client, task);
        }
        self.handle(client, Event::End { lease, report });
    }

    /// Nothing to do for a while.
    fn rest(&mut self, client: usize, task: usize) {
        self.clients[client].tasks[task].stage = Stage::Idle;
        let pause = self.random.below(self.plan.think_longest);
        self.schedule(client, task, pause);
    }

    // ---- answers

    fn answer(&mut self, client: usize, lease: LeaseId, answer: Answer) {
        let task = (lease.0 % 16) as usize;
        let one = &self.clients[client].tasks[task];
        let stage = one.stage;
        if one.lease != lease || matches!(stage, Stage::Idle) {
            let what = format!("client {client} hears {answer:?} of {lease:?}, which has ended");
            return self.violation(Invariant::Answer, what);
        }
        match (answer, stage) {
            (Answer::Granted { deadline, token }, Stage::Asking { by }) => {
                let (key, asked) = (one.key, one.asked);
                self.clients[client].tasks[task].token = token;
                self.on_token(client, key, token, asked);
                self.in_time(client, by, "of a grant");
                self.granted(client, task, deadline);
            }
            (Answer::Refused(refusal), Stage::Asking { by }) => {
                self.in_time(client, by, "of a refusal");
                self.refused(client, task, refusal);
            }
            (Answer::Extended { deadline }, Stage::Holding { until, .. }) => {
                let now = self.clients[client].clock.read(self.now);
                let (key, lease) = (one.key, one.lease);
                if !self.checker.extend(key, client, lease, deadline, now) {
                    let what = format!("client {client}'s {lease:?} is extended after its end");
                    self.violation(Invariant::Revival, what);
                }
                self.extended(client, task);
                self.check_cover(client, task, deadline);
                let one = &mut self.clients[client].tasks[task];
                one.stage = Stage::Holding { deadline, until };
                if let Some(most) = one.terms.max_hold
                    && deadline.as_nanos() > one.granted + most.as_nanos() as u64
                {
                    let what = format!("client {client}'s {lease:?} is held beyond {most:?}");
                    self.violation(Invariant::Validity, what);
                }
            }
            (Answer::Extended { .. }, Stage::Stuck) => {
                let what = format!("client {client}'s {lease:?} is extended after its end");
                self.violation(Invariant::Revival, what);
            }
            (Answer::NotExtended { .. }, Stage::Holding { .. } | Stage::Stuck) => {
                self.extended(client, task);
            }
            (Answer::Over(loss), Stage::Holding { .. } | Stage::Stuck) => {
                self.extended(client, task);
                self.lost(client, task, &loss, matches!(stage, Stage::Holding { .. }));
            }
            (Answer::Released(outcome), Stage::Releasing { by, over }) => {
                self.in_time(client, by, "of a release");
                self.released(client, task, outcome, over);
            }
            (answer, stage) => {
                let what = format!("client {client} hears {answer:?} of {lease:?} in {stage:?}");
                self.violation(Invariant::Answer, what);
            }
        }
    }

    fn in_time(&mut self, client: usize, by: Limit, what: &str) {
        if self.clients[client].is_past(by, self.now) {
            let what = format!("client {client} hears {what} too late, not by {by:?}");
            self.violation(Invariant::Answer, what);
        }
    }

    fn granted(&mut self, client: usize, task: usize, deadline: Instant) {
        self.tally.acquisitions += 1;
        let calm = self.phase == Phase::Calm;
        let longest = if calm {
            2 * MILLI
        } else {
            self.plan.hold_longest
        };
        let mut until = self.now + self.random.below(longest);
        if self.is_stuck_at_last(client, task) {
            until = self.now + 2 * self.plan.lease;
        }
        let now = Instant::from_nanos(self.clients[client].clock.read(self.now));
        let one = &mut self.clients[client].tasks[task];
        let (key, lease) = (one.key, one.lease);
        one.stage = Stage::Holding { deadline, until };
        one.owner = self.checker.latest_owner(client, key);
        one.read = None;
        one.fenced = AtStore::ToRead;
        one.granted = now.as_nanos();
        one.extending = None;
        if deadline.since(now) < one.terms.min_validity {
            let what = format!("client {client} is granted {:?}", deadline.since(now));
            self.violation(Invariant::Validity, what);
        }
        self.check_cover(client, task, deadline);
        if !self.checker.leave(client, key, lease) {
            let what = format!("client {client}'s {lease:?} is granted before its turn");
            self.violation(Invariant::Line, what);
        }
        let belief = Belief {
            client,
            lease,
            deadline,
        };
        let clients = &self.clients;
        let clock = |client: usize| clients[client].clock.clone();
        let other = self.checker.believe(key, belief, self.now, clock);
        if let Some(other) = other {
            let what = format!("{belief:?} and {other:?} hold key {key}");
            self.violation(Invariant::Exclusion, what);
        }
        self.schedule_step(client, task);
    }

    /// A majority of nodes keeps the key for at least as long as its holder believes in it.
    fn check_cover(&mut self, client: usize, task: usize, deadline: Instant) {
        let one = &self.clients[client].tasks[task];
        if self.plan.profile == Profile::Outside || self.losses {
            return;
        }
        let until = self.clients[client].clock.when(deadline.as_nanos());
        let keeps = |node: &&Node| {
            let key = node.key(one.key, self.now);
            key.is_some_and(|key| {
                one.owner == Some(key.owner) && node.clock.millis(until) <= key.expires
            })
        };
        let nodes = self.nodes.iter().filter(keeps).count();
        if nodes <= self.nodes.len() / 2 {
            let what = format!("only {nodes} nodes keep {:?} until {deadline:?}", one.owner);
            self.violation(Invariant::Validity, what);
        }
    }

    fn refused(&mut self, client: usize, task: usize, refusal: Refusal) {
        let one = &self.clients[client].tasks[task];
        let (key, lease) = (one.key, one.lease);
        self.checker.leave(client, key, lease);
        if self.phase == Phase::Calm {
            let what = format!("client {client}'s {lease:?} waited in vain: {refusal:?}");
            self.violation(Invariant::WakeUp, what);
        }
        self.rest(client, task);
    }

    fn lost(&mut self, client: usize, task: usize, loss: &Loss, holding: bool) {
        let key = self.clients[client].tasks[task].key;
        if *loss != Loss::Stopped {
            self.checker.over(client, key);
        }
        if holding {
            self.lose_hold(client, task);
        }
    }

    fn released(&mut self, client: usize, task: usize, outcome: Outcome, over: Over) {
        let nodes = self.nodes.len();
        let owner = self.clients[client].tasks[task].owner;
        let majority = nodes / 2 + 1;
        let lease = self.clients[client].tasks[task].lease;
        let known = self.checker.end_in_truth(client, lease);
        if let Some(owner) = owner {
            let (had_it, missing) = known.unwrap_or((0, nodes));
            let truth = match outcome {
                Outcome::Released => over == Over::No && had_it >= majority,
                Outcome::AlreadyExpired => over == Over::Yes || nodes - missing < majority,
                Outcome::Unknown => {
                    let calm = self.phase == Phase::Calm && !self.plan.half_open_at_last;
                    over == Over::No && !calm
                }
            };
            if !truth {
                let what = format!(
                    "client {client} hears {outcome:?} of {owner:?}: {had_it} of {nodes} had it, \
                     {missing} did not have it, its lease was over: {over:?}"
                );
                self.violation(Invariant::Outcome, what);
            }
        }
        self.rest(client, task);
    }

    // ---- shutting down

    pub(crate) fn tell_shutdown(&mut self, client: usize, timeout: u64, cut_off: bool) {
        let one = &mut self.clients[client];
        one.shut_down = Some(ShutDown {
            by: one.limit(self.now, timeout),
            until: one.clock.read(self.now) + timeout,
        });
        let timeout = nanos(timeout);
        self.handle(client, Event::Shutdown { timeout, cut_off });
    }

    fn drained(&mut self, client: usize, left: Drained) {
        let now = self.clients[client].clock.read(self.now);
        if let Some(shut_down) = self.clients[client].shut_down {
            self.in_time(client, shut_down.by, "of the end of a shutdown");
            if left != Drained::default() && now < shut_down.until {
                let what = format!("client {client} has shut down before its time: {left:?}");
                self.violation(Invariant::Answer, what);
            }
        }
        if self.checker.believes(client, now) {
            let what = format!("client {client} has shut down, and somebody still holds");
            self.violation(Invariant::Answer, what);
        }
        if left == Drained::default() {
            self.check_leaks(Some(client));
        }
        self.restart(client);
    }

    // ---- calm

    /// Ends whatever callers hold or want, in any order.
    pub(crate) fn end_all(&mut self) {
        for client in 0..self.clients.len() {
            for task in 0..self.plan.tasks {
                let after = self.random.below(2 * MILLI);
                let one = &mut self.clients[client].tasks[task];
                if let Stage::Holding { until, .. } = &mut one.stage {
                    *until = self.now;
                }
                if !matches!(one.stage, Stage::Idle | Stage::Releasing { .. }) {
                    self.schedule(client, task, after);
                }
            }
        }
    }

    /// Every caller is to ask for every key once more.
    pub(crate) fn send_errands(&mut self) {
        for client in 0..self.clients.len() {
            for task in 0..self.plan.tasks {
                self.clients[client].tasks[task].errands = self.plan.keys;
                let after = self.random.below(2 * MILLI);
                self.schedule(client, task, after);
            }
        }
    }

    /// Who keeps a history from coming to rest.
    pub(crate) fn restless(&self) -> Option<(Invariant, String)> {
        for (client, one) in self.clients.iter().enumerate() {
            for task in &one.tasks {
                let by = match task.stage {
                    Stage::Asking { by } | Stage::Releasing { by, .. } => by,
                    _ => continue,
                };
                if one.is_past(by, self.now) {
                    let what = format!("client {client}'s {:?} is not answered", task.lease);
                    return Some((Invariant::Answer, what));
                }
            }
            if !one.is_at_rest() {
                let what = format!("client {client}: {:?}, {:?}", one.tasks, one.links);
                return Some((Invariant::Rest, what));
            }
        }
        None
    }
}

impl Plan {
    pub(crate) fn clock(random: &mut Random) -> Clock {
        let shown = 1_000_000 * MILLI + random.below(1_000 * MILLI);
        Clock::new(shown, Self::rate(random))
    }
}
