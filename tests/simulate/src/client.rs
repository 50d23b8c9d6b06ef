//! A process: one engine with its protocol. What its callers do is in `callers`.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use redlock_protocol::{
    Action, Env, Event, Instant, NodeId, Order, Owner, Protocol, Request, Settings, ShutdownError,
};

use crate::{
    EPOCH, MICRO, MILLI, SECOND,
    agenda::Happening,
    callers::{Stage, Task},
    checker::{Rule, Sender},
    clock::Clock,
    network::{Arrival, Link},
    plan::{Plan, Traits, Wall, nanos},
    random::Random,
    rules::Costs,
    trace,
    world::World,
};

/// How much later than it should an engine wakes, and how much time work in it takes.
const SLACK: u64 = 5 * MILLI;

pub(crate) struct Client {
    protocol: Protocol,
    pub(crate) clock: Clock,
    pub(crate) traits: Traits,
    pub(crate) links: Vec<Link>,
    /// Which of the processes in this place it is.
    pub(crate) incarnation: u32,
    /// The true time.
    pub(crate) began: u64,
    pub(crate) tasks: Vec<Task>,
    /// How many sections there have been in this place.
    pub(crate) sections: u64,
    pub(crate) paused: bool,
    pub(crate) paused_until: u64,
    /// What comes in meanwhile.
    pub(crate) inbox: VecDeque<Arrival>,
    slept_through: bool,
    /// The true time of the next wake-up that is scheduled.
    wake_at: Option<u64>,
    /// The sum of what pauses and standing clocks have cost: answers may be so much later.
    pub(crate) delayed: u64,
    /// When a shutdown must be over.
    pub(crate) shut_down: Option<ShutDown>,
    pub(crate) costs: Costs,
    /// How many rounds have asked each node for numbers of a lock that does not have them yet, and how many
    /// had got theirs before.
    pub(crate) rounds: BTreeMap<(Owner, NodeId), (u32, u32)>,
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
    /// How much longer, if a holder has not let go.
    last: u64,
}

impl Client {
    pub(crate) fn is_busy(&self) -> bool {
        let busy = |task: &Task| matches!(task.stage, Stage::Asking { .. } | Stage::Holding { .. });
        self.tasks.iter().any(busy)
    }

    /// So long from now, not counting the time for which the clock is going to stand still.
    pub(crate) fn limit(&self, now: u64, span: Duration) -> Limit {
        let span = span.as_nanos() as u64;
        Limit {
            at: self.clock.runs_from(now) + span + span / 200 + SLACK,
            delayed: self.delayed,
        }
    }

    pub(crate) fn is_past(&self, limit: Limit, now: u64) -> bool {
        now > limit.at + (self.delayed - limit.delayed)
    }

    /// It does nothing for so long from now on.
    pub(crate) fn pause(&mut self, now: u64, time: u64) {
        self.paused_until = now + time;
        self.paused = true;
        self.delayed += time;
    }

    /// Its clock is set: forward, or it stands still because it never goes back.
    pub(crate) fn step(&mut self, now: u64, forward: u64, stall: u64) {
        self.clock.step_forward(now, forward);
        if stall > 0 {
            self.clock.stall(now, stall);
            self.delayed += stall;
        }
        self.wake_at = None;
    }
}

impl World {
    /// A new process takes the next place.
    pub(crate) fn join(&mut self) {
        let client = self.clients.len();
        let clock = Plan::clock(&mut self.random);
        trace!(self, "client {client} begins");
        self.checker.new_process(client);
        let new = self.new_client(client, 0, clock);
        self.clients.push(new);
        self.start(client);
    }

    fn new_client(&mut self, place: usize, incarnation: u32, clock: Clock) -> Client {
        let traits = Traits::draw(&self.plan, place, &mut self.random);
        let now = Instant::from_nanos(clock.read(self.now));
        let settings = Settings {
            silence_limit: nanos(traits.silence_limit),
            ping_interval: Some(nanos(traits.ping_interval())),
            assume_fresh: traits.assume_fresh,
            busy_from: traits.busy_from,
            mixed_fleet: self.plan.fleet.mixed_fleet,
            ..Settings::of(traits.max_ttl, traits.default_ttl)
        };
        let protocol = Protocol::new(self.plan.servers.count, settings, self.env(), now);
        let tasks = (0..self.plan.fleet.tasks).map(|task| Task::new(task, &self.plan));
        let tasks = tasks.collect();
        Client {
            protocol,
            clock,
            traits,
            links: self.links(place),
            incarnation,
            began: self.now,
            tasks,
            sections: 0,
            paused: false,
            paused_until: 0,
            inbox: VecDeque::new(),
            slept_through: false,
            wake_at: None,
            delayed: 0,
            shut_down: None,
            costs: Costs::default(),
            rounds: BTreeMap::new(),
        }
    }

    /// A wall clock, and chance.
    fn env(&mut self) -> Env {
        let mut chance = Random::new(self.random.next());
        let random = move || u128::from(chance.next()) << 64 | u128::from(chance.next());
        let skew = self.plan.skew / MICRO;
        let behind = self.random.below(2 * skew);
        let days = self.random.below(20 * 86_400_000_000);
        let mut chance = Random::new(self.random.next());
        let wall = Arc::clone(&self.wall);
        let kind = self.plan.wall;
        let wall_micros = move || {
            let now = EPOCH + wall.load(Ordering::Relaxed);
            match kind {
                // Always off by the same, but for steps.
                Wall::Near if chance.below(8) == 0 => now + skew - chance.below(2 * skew),
                Wall::Near => now + skew - behind,
                Wall::Stopped => behind % 1_000 + chance.below(1_000),
                Wall::Anywhere => now + days - 10 * 86_400_000_000,
            }
        };
        Env {
            random: Box::new(random),
            wall_micros: Box::new(wall_micros),
        }
    }

    /// Lets a new client begin.
    fn start(&mut self, client: usize) {
        self.carry_out(client);
        for task in 0..self.plan.fleet.tasks {
            let most = self.plan.habits.think_longest + 2 * MILLI;
            let first = self.random.below(most);
            self.schedule(client, task, first);
        }
    }

    /// The process ends where it stands, and another takes its place.
    pub(crate) fn restart(&mut self, client: usize) {
        trace!(self, "client {client} is no more");
        self.checker.new_process(client);
        self.give_up_all_of(client);
        let old = &self.clients[client];
        let inbox = old.inbox.iter();
        self.under_way -= inbox.map(|arrival| arrival.message.work()).sum::<usize>();
        let (clock, incarnation) = (old.clock.clone(), old.incarnation + 1);
        let turns: Vec<u32> = old.tasks.iter().map(|task| task.turn).collect();
        self.clients[client] = self.new_client(client, incarnation, clock);
        for (task, turn) in self.clients[client].tasks.iter_mut().zip(turns) {
            task.turn = turn + 1;
        }
        self.start(client);
    }

    pub(crate) fn handle(&mut self, client: usize, event: Event) {
        let now = self.clients[client].clock.read(self.now);
        trace!(self, "client {client} at {now}: {event:?}");
        self.give(client, event);
        self.carry_out(client);
    }

    fn give(&mut self, client: usize, event: Event) {
        let one = &mut self.clients[client];
        let now = Instant::from_nanos(one.clock.read(self.now));
        one.protocol.handle(event, now);
    }

    fn carry_out(&mut self, client: usize) {
        while let Some(action) = self.clients[client].protocol.poll_action() {
            trace!(self, "client {client} -> {action:?}");
            match action {
                Action::Connect { node, connection } => self.connect(client, node, connection),
                Action::Listen { node, connection } => {
                    self.give(client, Event::Silent { node, connection });
                }
                Action::Disconnect { node } => self.disconnect(client, node),
                Action::Send(order) => self.send_order(client, order),
                Action::Answer { section, answer } => self.answer(client, section, answer),
                Action::NodeChanged { node, state } => self.node_changed(client, node, &state),
                Action::Drained(left) => {
                    self.drained(client, left);
                    return;
                }
            }
        }
        self.end_step();
        self.arm(client);
    }

    fn send_order(&mut self, client: usize, order: Order) {
        let is_admission = matches!(order.body, Request::Admit { .. });
        let is_cut_off = is_admission && self.is_cut_off(client, order.node.0);
        let has_choice = self.has_choice(client);
        let one = &mut self.clients[client];
        one.costs.on_send(&order, has_choice);
        self.queue_at(&order);
        self.check_rounds(client, &order);
        let one = &mut self.clients[client];
        let sender = Sender {
            client,
            incarnation: one.incarnation,
            now: one.clock.read(self.now),
            lost_at: self.nodes[order.node.0].lost_at,
            is_cut_off,
        };
        let what = (order.request, &order.body);
        let (tag, broken) = self.checker.on_send(sender, order.node.0, what);
        match broken {
            Some((Rule::Line, what)) => self.on_unreleased(client, &order, what),
            Some((rule, what)) => self.violation(rule, what),
            None => {}
        }
        self.send(client, order, tag);
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
        for link in &mut one.links {
            link.troubled = link.troubled.max(self.now);
        }
        let incarnation = one.incarnation;
        let slept_through = std::mem::take(&mut one.slept_through);
        if slept_through && self.random.chance(300) {
            self.handle(client, Event::Wakeup);
        }
        while self.clients[client].incarnation == incarnation
            && let Some(arrival) = self.clients[client].inbox.pop_front()
        {
            self.under_way -= arrival.message.work();
            self.take_in(client, arrival);
        }
        self.arm(client);
    }

    // ---- shutting down

    pub(crate) fn tell_shutdown(&mut self, client: usize, timeout: u64, abort_holders: bool) {
        let one = &mut self.clients[client];
        // Those that are cut off when the time is up have a second to let go.
        let last = if abort_holders { 0 } else { SECOND };
        one.shut_down = Some(ShutDown {
            by: one.limit(self.now, nanos(timeout + last)),
            until: one.clock.read(self.now) + timeout,
            last,
        });
        let shutdown = Event::Shutdown {
            timeout: nanos(timeout),
            abort_holders,
        };
        self.handle(client, shutdown);
    }

    fn drained(&mut self, client: usize, left: ShutdownError) {
        let now = self.clients[client].clock.read(self.now);
        if let Some(shut_down) = self.clients[client].shut_down {
            self.in_time(client, shut_down.by, "of the end of a shutdown");
            let tasks = &mut self.clients[client].tasks.iter();
            let is_stuck = tasks.any(|task| matches!(task.stage, Stage::Stuck));
            let last = if is_stuck { shut_down.last } else { 0 };
            if left != ShutdownError::default() && now < shut_down.until + last {
                let what = format!("client {client} has shut down before its time: {left:?}");
                self.violation(Rule::Answer, what);
            }
        }
        if self.checker.believes(client, now) {
            let what = format!("client {client} has shut down, and a section still holds");
            self.violation(Rule::Answer, what);
        }
        if left == ShutdownError::default() {
            self.check_leaks(Some(client));
        }
        self.restart(client);
    }
}
