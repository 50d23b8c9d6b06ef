//! Callers: they ask for locks, work under them, and let go or forget to.

use std::time::Duration;

use redlock_protocol::{Event, Instant, LeaseParams, LockParams, Mode, Owner, SectionId};

use crate::{
    MICRO, MILLI, SECOND,
    agenda::Happening,
    client::Limit,
    faults::Fault,
    names::KEYS,
    plan::{Plan, nanos},
    scenario::Scenario,
    trace,
    world::{Phase, World},
};

/// More than any process has.
const TASKS: u64 = 64;

#[derive(Debug)]
pub(crate) struct Task {
    /// The true time of its last question.
    pub(crate) asked: u64,
    pub(crate) stage: Stage,
    pub(crate) section: SectionId,
    pub(crate) key: usize,
    pub(crate) params: LockParams,
    /// Counts what it has done, so that what it meant to do before is not done.
    pub(crate) turn: u32,
    pub(crate) owner: Option<Owner>,
    /// The other keys that it asks for with this one, and their owners.
    pub(crate) others: Vec<(usize, Option<Owner>)>,
    /// How many permits it asks for at once; 0 if it asks for one as most do.
    pub(crate) weight: u32,
    /// Whether it shares those.
    pub(crate) modes: [Mode; KEYS],
    /// By the client's clock.
    pub(crate) granted: u64,
    /// The same in true time.
    pub(crate) began: u64,
    /// How many nodes had its key when it let go.
    pub(crate) kept: usize,
    /// The length of the lease that it has asked for, and when it must have heard what became of that.
    pub(crate) extending: Option<(Duration, Limit)>,
    /// It has asked for an extension.
    pub(crate) has_asked_for_more: bool,
    /// The keys it still has to ask for while all is calm.
    pub(crate) errands: usize,
}

/// Whether a lease was over when its holder let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The clock says so, or the engine.
    Yes,
    No,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Stage {
    Idle,
    Asking { by: Limit },
    Holding { deadline: Instant, until: u64 },
    // The lease is over, and the holder has not let go yet.
    Stuck,
    Releasing { by: Limit, over: Over },
}

impl Task {
    /// Its lease is over, and it has not let go of this key.
    pub(crate) fn is_stuck_with(&self, held: (usize, Option<Owner>)) -> bool {
        matches!(self.stage, Stage::Stuck) && self.keys().any(|it| it == held)
    }

    pub(crate) fn new(task: usize, plan: &Plan) -> Self {
        Self {
            stage: Stage::Idle,
            section: SectionId(task as u64),
            key: 0,
            params: plan.plain_params(),
            turn: 0,
            owner: None,
            others: Vec::new(),
            weight: 0,
            modes: [Mode::Exclusive; KEYS],
            asked: 0,
            granted: 0,
            began: 0,
            kept: 0,
            extending: None,
            has_asked_for_more: false,
            errands: 0,
        }
    }
}

/// The task that a section belongs to.
pub(crate) const fn task_of(section: SectionId) -> usize {
    (section.0 % TASKS) as usize
}

impl World {
    pub(crate) fn schedule(&mut self, client: usize, task: usize, after: u64) {
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
                self.hit(Fault::CallerCancelled, Some(client));
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
        if self.phase != Phase::Faulty && self.clients[client].tasks[task].errands == 0 {
            return;
        }
        let (key, params) = match self.phase {
            Phase::Storm => (0, self.plan.storm_params(&mut self.random)),
            Phase::Calm => {
                let key = self.clients[client].tasks[task].errands - 1;
                let mut params = self.plan.calm_params(self.stepped_back());
                params.mode = self.plan.mode(&mut self.random);
                (key, params)
            }
            _ => self.draw_question(client, task),
        };
        let (key, params) = (self.line_of(key), self.on_terms(params));
        self.draw_others(client, task, key);
        let (key, params) = self.draw_weight((client, task), (key, params));
        let of_several = self.rounds_of_several();
        let one = &mut self.clients[client];
        let is_of_several = one.tasks[task].is_of_several();
        let rounds = if is_of_several { of_several } else { 1 };
        one.sections += 1;
        let section = SectionId(one.sections * TASKS + task as u64);
        let by = one.limit(self.now, params.wait + rounds * params.round_timeout());
        let asking = &mut one.tasks[task];
        asking.errands = asking.errands.saturating_sub(1);
        asking.key = key;
        asking.section = section;
        asking.params = params;
        asking.stage = Stage::Asking { by };
        asking.turn += 1;
        asking.asked = self.now;
        if !is_of_several {
            self.on_waiter(key);
            self.checker.ask(client, key, section);
        }
        let patient = self.plan.is_leader(client, task);
        if self.phase == Phase::Faulty && !patient && self.random.chance(self.plan.habits.cancel) {
            let late = params.wait.as_nanos() as u64 + 4 * MILLI;
            let after = self.random.pick(&[MILLI / 2, 4 * MILLI, late]);
            let after = self.random.below(after);
            self.schedule(client, task, after);
        }
        let question = match is_of_several {
            true => self.question_for_all((client, task), section, params),
            false => self.question(section, key, params),
        };
        self.handle(client, question);
    }

    /// Which lock, and on what terms.
    fn draw_question(&mut self, client: usize, task: usize) -> (usize, LockParams) {
        let keys = self.plan.fleet.keys;
        let mut params = self.plan.params(&mut self.random);
        if self.plan.is_leader(client, task) {
            let renew = nanos(self.plan.lease / self.random.pick(&[3, 8]));
            let is_renewed = self.plan.scenario != Scenario::Witnesses;
            params = LockParams {
                wait: nanos(self.plan.active),
                renew: is_renewed.then_some(renew),
                mode: self.plan.mode(&mut self.random),
                ..self.plan.plain_params()
            };
            return (client, params);
        }
        let key = match self.plan.scenario {
            // The last one is asked for so seldom that nodes lose their memory in between.
            Scenario::Rolling => 1 + usize::from(self.random.chance(30)),
            Scenario::Steps => keys - 1,
            _ => self.random.index(keys),
        };
        if self.plan.scenario == Scenario::Witnesses {
            params = self.short_params(params);
        }
        if self.plan.scenario == Scenario::Outage {
            params.wait = self.random.pick(&[params.wait, nanos(self.plan.active)]);
        }
        (key, params)
    }

    /// One step of a section, if the clock lets it.
    fn work(&mut self, client: usize, task: usize, deadline: Instant, until: u64) {
        let now = self.clients[client].clock.read(self.now);
        if now >= deadline.as_nanos() {
            // Not polled any more.
            return self.lose_hold(client, task);
        }
        if self.now >= until {
            let report = self.phase != Phase::Faulty || self.random.chance(500);
            return self.let_go(client, task, report);
        }
        self.schedule_step(client, task);
        if self.phase == Phase::Faulty && self.random.chance(self.plan.habits.extend) {
            match self.random.below(4) {
                0 if self.can_share(client, task) => self.share(client, task),
                _ => self.extend(client, task),
            }
        }
    }

    /// It has the lock alone, as other callers share it.
    fn can_share(&self, client: usize, task: usize) -> bool {
        let one = &self.clients[client].tasks[task];
        let is_plain = one.params.at_least.is_zero() && !one.is_of_several();
        let is_free = self.plan.fleet.permits.is_none() && self.plan.habits.shared > 0;
        is_free && is_plain && one.params.mode == Mode::Exclusive
    }

    /// It is a reader from now on.
    fn share(&mut self, client: usize, task: usize) {
        let one = &self.clients[client];
        let by = one.limit(self.now, 2 * one.tasks[task].params.round_timeout());
        let task = &mut self.clients[client].tasks[task];
        task.params.mode = Mode::Shared;
        // An extension that is under way ends with the round that makes it a reader.
        task.extending = Some((task.params.lease, by));
        task.has_asked_for_more = true;
        let (key, section) = (task.key, task.section);
        self.checker.share(key, client, section);
        self.handle(client, Event::Share { section });
    }

    fn extend(&mut self, client: usize, task: usize) {
        let one = &self.clients[client];
        let (section, params) = (one.tasks[task].section, one.tasks[task].params);
        // Never so long that the key TTL is longer than that of the longest lease.
        let more = (nanos(self.plan.lease).saturating_sub(params.lease)) / 2;
        let lease = match self.random.below(4) {
            0 => Some(params.lease / 2),
            1 => Some(params.lease + more),
            _ => None,
        };
        let lease = lease.map(|length| LeaseParams {
            length,
            guard_band: params.guard_band,
        });
        // Of several keys one may have a round under way, behind which another one follows. So may one that asks the
        // nodes for less than is wanted now.
        let rounds = match lease {
            None if !one.tasks[task].is_of_several() => 1,
            _ => 2,
        };
        let by = one.limit(self.now, rounds * params.round_timeout());
        let length = lease.map_or(params.lease, |lease| lease.length);
        let one = &mut self.clients[client].tasks[task];
        // All keys are asked again for a longer lease, and for no other one.
        let is_begun_anew = |(asked, _)| one.is_of_several() && asked < length;
        if one.extending.is_none_or(is_begun_anew) {
            one.extending = Some((length, by));
        }
        one.has_asked_for_more = true;
        self.handle(client, Event::Extend { section, lease });
    }

    /// The next step of a section: now and then at the last moment that the lease allows.
    pub(crate) fn schedule_step(&mut self, client: usize, task: usize) {
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
    pub(crate) fn lose_hold(&mut self, client: usize, task: usize) {
        let one = &mut self.clients[client].tasks[task];
        one.stage = Stage::Stuck;
        let section = one.section;
        trace!(self, "client {client}'s {section:?} is over");
        self.disbelieve_all(client, task);
        let mut after = self.random.below(200 * MICRO);
        if self.is_stuck_at_last(client, task) {
            // Until everybody else has had to get the lock.
            let params = self.plan.calm_params(self.stepped_back());
            after = params.wait.as_nanos() as u64 + 2 * SECOND;
        } else if self.random.chance(self.plan.habits.stuck) {
            after = self.random.below(2 * self.plan.lease);
        }
        self.schedule(client, task, after);
    }

    /// The one caller that keeps its lock while all is calm.
    pub(crate) fn is_stuck_at_last(&self, client: usize, task: usize) -> bool {
        let calm = self.plan.stuck_at_last && self.phase == Phase::Calm;
        let first = || self.clients[0].tasks[0].errands + 1 == self.plan.fleet.keys;
        calm && client == 0 && task == 0 && first()
    }

    /// Ends a section in whatever stage it is.
    pub(crate) fn let_go(&mut self, client: usize, task: usize, report: bool) {
        let now = self.clients[client].clock.read(self.now);
        let one = &self.clients[client].tasks[task];
        let (key, section) = (one.key, one.section);
        let over = match one.stage {
            Stage::Holding { deadline, .. } if now < deadline.as_nanos() => Over::No,
            _ => Over::Yes,
        };
        let by = self.clients[client].limit(self.now, one.params.round_timeout());
        self.extended(client, task);
        self.checker.leave(client, key, section);
        self.disbelieve_all(client, task);
        let kept = self.carriers(client, section);
        let one = &mut self.clients[client].tasks[task];
        one.kept = kept;
        if over == Over::No && report {
            for owner in one.keys().filter_map(|(_, owner)| owner) {
                self.checker.end(client, section, owner);
            }
        }
        if report {
            one.stage = Stage::Releasing { by, over };
        } else {
            self.rest(client, task);
        }
        self.handle(client, Event::End { section, report });
    }

    /// Nothing to do for a while.
    pub(crate) fn rest(&mut self, client: usize, task: usize) {
        self.clients[client].tasks[task].stage = Stage::Idle;
        let pause = self.random.below(self.plan.habits.think_longest);
        self.schedule(client, task, pause);
    }

    /// Ends whatever callers hold or want, in any order.
    pub(crate) fn end_all(&mut self) {
        for client in 0..self.clients.len() {
            for task in 0..self.plan.fleet.tasks {
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
}
