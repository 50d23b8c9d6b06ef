//! Between the protocol and the world: hands in what has happened, and carries out what it wants.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::Context,
    time::Duration,
};

use redlock_protocol::{
    Action, Answer, Event, Instant, Loss, MOST_SLOTS, Member, NodeId, NodeState, Order, Protocol,
    Release, SectionId, ShutdownError, Verdict,
};
use tokio::sync::{oneshot, watch};

use super::{
    command::{Caller, Command, Extending, Shutdown},
    delivery::Delivery,
};
use crate::{
    clock::Clock,
    node::{MemoryLink, Server, Sockets, Target},
    observe::Observer,
    status::Status,
};

/// How often the nodes are reported while no state changes: for recorders that are installed late, and because
/// round trips change all the time.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// More callers that wait are many.
const FEW: usize = 4;

pub(super) struct Driver {
    protocol: Protocol,
    clock: Clock,
    nodes: Vec<Node>,
    sockets: Option<Arc<Sockets>>,
    /// What has been read, and is not handed in yet.
    events: Vec<Event>,
    /// What has been asked, and is not handed in yet.
    pub(super) intake: Vec<Command>,
    /// What to tell once this driver is free again.
    pub(super) deliveries: Vec<Delivery>,
    pub(super) node_states: watch::Sender<Vec<Option<NodeState>>>,
    /// What the protocol says of it, for other threads.
    pub(super) under_replicated: Arc<AtomicUsize>,
    observer: Arc<Observer>,
    /// When that is reported next, if there is anything to do then.
    reports_at: Instant,
    callers: HashMap<SectionId, Caller>,
    /// How many of them have no answer.
    asking: usize,
    /// Those callers that want a longer lease.
    extending: HashMap<SectionId, Vec<Extending>>,
    /// Those that want to hear of their release.
    releasing: HashMap<SectionId, oneshot::Sender<Release>>,
    /// What memory nodes have answered.
    answered: VecDeque<Event>,
    shutdowns: Vec<Shutdown>,
    /// Set once it has been shut down, and everything that can be released is.
    pub(super) drained: Option<ShutdownError>,
}

enum Node {
    Redis(Box<Server>),
    Memory(MemoryLink),
}

impl Driver {
    pub(super) fn new(
        protocol: Protocol,
        clock: Clock,
        (nodes, name): (Vec<Target>, Arc<str>),
        sockets: Option<Arc<Sockets>>,
        observer: Arc<Observer>,
    ) -> Self {
        let start = |(index, target)| match target {
            Target::Memory(memory) => Node::Memory(MemoryLink::new(NodeId(index), memory)),
            Target::Redis(endpoint) => {
                let seat = sockets.as_ref().map(|sockets| sockets.seat(NodeId(index)));
                let server = Server::new(NodeId(index), endpoint, Arc::clone(&name), seat);
                Node::Redis(Box::new(server))
            }
        };
        let node_states = watch::Sender::new(vec![None; nodes.len()]);
        let mut driver = Self {
            protocol,
            clock,
            nodes: nodes.into_iter().enumerate().map(start).collect(),
            sockets,
            events: Vec::new(),
            intake: Vec::new(),
            deliveries: Vec::new(),
            node_states,
            under_replicated: Arc::default(),
            observer,
            reports_at: Instant::from_nanos(0),
            callers: HashMap::new(),
            asking: 0,
            extending: HashMap::new(),
            releasing: HashMap::new(),
            answered: VecDeque::new(),
            shutdowns: Vec::new(),
            drained: None,
        };
        // Nodes in memory vote from here on, and not only once the runtime gets around to it.
        driver.carry_out();
        driver
    }

    /// Sends what waits to be sent, and collects what has come: of all nodes if `are_ready`, of those that
    /// have work otherwise, and of those where something `has_come` to a seat. `sockets` is woken by what comes next
    /// to other sockets; what needs the engine's runtime is left where `engine` is not given, which it wakes.
    pub(super) fn poll_nodes(
        &mut self,
        (are_ready, has_come): (bool, bool),
        sockets: &mut Context<'_>,
        mut engine: Option<&mut Context<'_>>,
    ) {
        if let Some(seats) = self.sockets.as_ref().filter(|_| has_come) {
            seats.look();
        }
        for node in &mut self.nodes {
            match node {
                Node::Redis(server) => {
                    if are_ready || server.has_work() || has_come && server.is_unread() {
                        match engine {
                            Some(_) => server.poll(sockets, &mut self.events),
                            None => server.poll_outside(sockets, &mut self.events),
                        }
                    }
                }
                Node::Memory(link) => {
                    if let Some(engine) = &mut engine {
                        link.poll(engine, &mut self.events);
                    }
                }
            }
        }
    }

    /// Any thread polls this node next, although nothing has woken it.
    pub(super) fn has_work(&self) -> bool {
        self.any_server(|server| server.has_work() && !server.needs_runtime())
    }

    /// The engine polls this node next, although nothing has woken it.
    pub(super) fn has_work_of_engine(&self) -> bool {
        self.any_server(|server| server.has_work() && server.needs_runtime())
    }

    /// Most servers have so much to answer that a new command can wait for more, to be written with them. A
    /// single server that lags says nothing of how much is asked. (How many *nodes* an attempt asks goes by
    /// `Settings::busy_from` of the protocol.)
    pub(super) fn is_busy(&self) -> bool {
        let is_busy = |node: &&Node| matches!(node, Node::Redis(server) if server.is_busy());
        2 * self.nodes.iter().filter(is_busy).count() > self.nodes.len()
    }

    /// Several callers wait for something.
    pub(super) fn are_many(&self) -> bool {
        self.asking > FEW
    }

    fn any_server(&self, is_so: impl Fn(&Server) -> bool) -> bool {
        let mut nodes = self.nodes.iter();
        nodes.any(|node| matches!(node, Node::Redis(server) if is_so(server)))
    }

    /// There are commands, and no caller waits for what comes of them.
    pub(super) fn is_nothing_awaited(&self) -> bool {
        !self.intake.is_empty() && !self.intake.iter().any(Command::is_awaited)
    }

    /// Hands in what has been read and asked, and that time has passed.
    pub(super) fn take_in(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        // Replies before commands: a release that has come lets the next caller start without asking the nodes.
        events.drain(..).for_each(|event| self.handle(event));
        self.events = events;
        // Taken out, because handling one may add others, and kept for its capacity.
        let mut intake = std::mem::take(&mut self.intake);
        intake
            .drain(..)
            .for_each(|command| self.on_command(command));
        self.intake = intake;
        let due = self.next_wakeup();
        // Time last: what has come in time must not be taken for late.
        if due.is_some_and(|due| due <= self.clock.now()) {
            self.handle(Event::Wakeup);
        }
    }

    /// When there is something to do again if nothing happens.
    pub(super) fn next_wakeup(&self) -> Option<Instant> {
        self.protocol.next_wakeup()
    }

    /// Who has shut it down, and what is left.
    pub(super) fn take_shutdowns(&mut self) -> (ShutdownError, Vec<Shutdown>) {
        let left = self.drained.unwrap_or_default();
        (left, std::mem::take(&mut self.shutdowns))
    }

    fn on_command(&mut self, command: Command) {
        match command {
            // Its caller has gone before anything was done for it. Where many do, callers that are there
            // would have to wait for all of their requests and releases.
            Command::Acquire { caller, .. } if caller.0.is_released() => {}
            Command::Acquire { params, caller } => {
                let (section, keys) = (caller.0.section, caller.0.keys.clone());
                // Before the event: the protocol may answer at once.
                self.callers.insert(section, caller);
                self.asking += 1;
                let event = match keys.listed() {
                    members @ ([] | [Member { weight: 1, .. }]) => Event::Ask {
                        section,
                        key: Arc::clone(keys.text()),
                        params: members
                            .first()
                            .map_or(params, |only| params.of_member(only)),
                    },
                    members => Event::AskAll {
                        section,
                        members: members.to_vec(),
                        params,
                    },
                };
                self.handle(event);
            }
            Command::Renew {
                section,
                event,
                answer,
            } => self.renew(section, event, answer),
            Command::Tell(event) => self.handle(event),
            Command::End { section, answer } => {
                let report = answer.is_some();
                // A section that never asked has nothing to release, and nobody would ever answer.
                match answer.filter(|_| self.callers.contains_key(&section)) {
                    Some(answer) => drop(self.releasing.insert(section, answer)),
                    None => self.forget(section),
                }
                self.handle(Event::End { section, report });
            }
            Command::Look { key, answer } => self.look(&key, answer),
            Command::Shutdown { event, done } => {
                self.shutdowns.push(done);
                self.handle(event);
            }
        }
    }

    /// A lease that is over is not extended: dropping the sender says so.
    fn renew(&mut self, section: SectionId, event: Event, answer: Extending) {
        let caller = self.callers.get(&section);
        match caller.filter(|Caller(status)| status.loss().is_none()) {
            Some(_) => {
                // Several tasks can ask at once, and one round answers all of them.
                self.extending.entry(section).or_default().push(answer);
                self.handle(event);
            }
            None => self.tell(|_| drop(answer)),
        }
    }

    fn look(&mut self, key: &str, answer: oneshot::Sender<Vec<Arc<Status>>>) {
        let sections = self.protocol.sections_of(key, MOST_SLOTS).into_iter();
        let callers = sections.filter_map(|section| self.callers.get(&section));
        let seen = callers.map(|Caller(status)| Arc::clone(status)).collect();
        self.tell(|_| drop(answer.send(seen)));
    }

    fn tell(&mut self, tell: impl FnOnce(&Observer) + Send + 'static) {
        self.deliveries.push(Delivery::Other(Box::new(tell)));
    }

    /// Tells those who want a longer lease; there is no answer if that is over.
    fn tell_extending(&mut self, section: SectionId, result: Option<Result<(), Vec<Verdict>>>) {
        for to in self.extending.remove(&section).into_iter().flatten() {
            let result = result.clone();
            self.tell(|_| drop(result.map(|result| to.send(result))));
        }
    }

    /// Reads the clock for every event anew: a reply must not be dated back to the start of the
    /// batch it came in, or it could extend a lease that has run out.
    fn handle(&mut self, event: Event) {
        let now = self.clock.now();
        self.protocol.handle(event, now);
        self.carry_out();
        let under_replicated = self.protocol.under_replicated();
        // A number for people: nothing else is read together with it.
        self.under_replicated.store(under_replicated, Relaxed);
        if self.reports_at <= now && self.observer.is_on() {
            self.report_nodes(now);
        }
    }

    /// Reports what is known of the nodes.
    fn report_nodes(&mut self, now: Instant) {
        self.reports_at = now.after(REPORT_EVERY);
        let round_trip = |node| self.protocol.round_trip(NodeId(node));
        let round_trips: Vec<_> = (0..self.nodes.len()).map(round_trip).collect();
        let under_replicated = self.protocol.under_replicated();
        let states = self.node_states.clone();
        // Recorders and subscribers are the application's code, so not under the lock of the driver.
        self.tell(move |observer| {
            // They have been written already; this is the notice.
            states.send_modify(|_| ());
            let states = || states.borrow().clone();
            observer.nodes_are(states, (&round_trips, under_replicated), now);
        });
    }

    fn carry_out(&mut self) {
        loop {
            while let Some(action) = self.protocol.poll_action() {
                self.act(action);
            }
            // Nodes in memory reply at once, but not within `handle`: the protocol is not re-entrant.
            let Some(event) = self.answered.pop_front() else {
                return;
            };
            self.protocol.handle(event, self.clock.now());
        }
    }

    pub(super) fn act(&mut self, action: Action) {
        match action {
            Action::Connect { node, connection } => match &mut self.nodes[node.0] {
                Node::Redis(server) => server.connect(connection),
                Node::Memory(link) => {
                    link.connect(connection, self.clock.now(), &mut self.answered);
                }
            },
            Action::Listen { node, connection } => match &mut self.nodes[node.0] {
                Node::Redis(server) => server.listen(),
                Node::Memory(link) => link.listen(connection, &mut self.answered),
            },
            Action::Disconnect { node } => match &mut self.nodes[node.0] {
                Node::Redis(server) => server.disconnect(),
                Node::Memory(link) => link.disconnect(),
            },
            Action::Send(order) => self.send(order),
            Action::Answer { section, answer } => self.answer(section, answer),
            Action::NodeChanged { node, state } => {
                self.node_states.send_if_modified(|states| {
                    // Without a notice: waiters are woken by the delivery, once the driver is free.
                    states[node.0] = Some(state);
                    false
                });
                self.report_nodes(self.clock.now());
            }
            Action::Drained(left) => self.drained = Some(left),
        }
    }

    fn send(&mut self, order: Order) {
        match &mut self.nodes[order.node.0] {
            Node::Redis(server) => server.send(order),
            Node::Memory(link) => link.send(&order, self.clock.now(), &mut self.answered),
        }
    }

    /// Passes an answer on. A caller that does not listen any more has asked, or is about to
    /// ask, for the end of its lease.
    fn answer(&mut self, section: SectionId, answer: Answer) {
        if matches!(answer, Answer::Extended { .. } | Answer::Over(_)) {
            self.report_self_wait(section);
        }
        // It may have dropped its future: then the end of its lease is on the way, or was handed in.
        let Some(Caller(status)) = self.callers.get(&section) else {
            return;
        };
        if matches!(answer, Answer::Granted { .. } | Answer::Refused(_)) {
            self.asking -= 1;
        }
        match answer {
            Answer::Granted {
                deadline,
                token,
                attempts,
            } => {
                // Before the caller is woken: it may look at once, on another thread.
                status.grant(deadline, token, attempts);
                self.deliveries.push(Delivery::Answered(Arc::clone(status)));
            }
            Answer::Refused(refusal) => {
                status.refuse(refusal);
                self.deliveries.push(Delivery::Answered(Arc::clone(status)));
                self.forget(section);
            }
            Answer::Extended { .. } if !status.is_taken() => {
                // A future that nobody polls must not hold the lock for ever.
                if status.late(self.clock.now()).is_some() {
                    let verdicts = Vec::new();
                    self.end(section, Loss::Expired { verdicts });
                    let report = false;
                    self.answered.push_back(Event::End { section, report });
                    self.forget(section);
                }
            }
            Answer::Extended { deadline } => {
                let status = Arc::clone(status);
                let late = status.late(self.clock.now());
                let late = late.filter(|_| deadline > status.deadline());
                // The body goes by this, whoever is told later.
                status.hold_until(deadline);
                if self.observer.is_on() {
                    self.tell(move |observer| observer.renewed(&status, late));
                }
                self.tell_extending(section, Some(Ok(())));
            }
            Answer::NotExtended { verdicts } => self.tell_extending(section, Some(Err(verdicts))),
            Answer::Over(loss) => {
                self.end(section, loss);
                self.tell_extending(section, None);
            }
            Answer::Released(release) => {
                if let Some(to) = self.releasing.remove(&section) {
                    self.tell(move |_| {
                        let _ = to.send(release);
                    });
                }
                self.forget(section);
            }
        }
    }

    /// Looks for a caller that may wait for its own guard whenever that has had its lock for a while.
    fn report_self_wait(&mut self, section: SectionId) {
        let status = |section| Some(&self.callers.get(&section)?.0);
        let guard = status(section).filter(|status| status.is_guard());
        let Some(guard) = guard.filter(|_| self.observer.is_on()) else {
            return;
        };
        let slots = guard.keys.permits().unwrap_or_default();
        let keys = guard.keys.iter();
        let others = keys.flat_map(|key| self.protocol.sections_of(key, slots));
        let other = others
            .filter_map(status)
            .find(|other| guard.is_waited_for_by(other))
            .map(Arc::clone);
        if let Some(other) = other {
            let now = self.clock.now();
            self.tell(move |observer| observer.self_wait(&other, now));
        }
    }

    /// Ends a lease under its holder, who is told, unless it has ended already.
    fn end(&mut self, section: SectionId, loss: Loss) {
        let Some(Caller(status)) = self.callers.get(&section) else {
            return;
        };
        if !status.end_untold(loss) {
            return;
        }
        let (status, now) = (Arc::clone(status), self.clock.now());
        self.tell(move |observer| {
            // First the holder, whose body must stop; then the log.
            status.tell_end();
            if let Some(loss) = status.loss()
                && status.is_over_now()
            {
                observer.over(&status, loss.into(), now);
            }
        });
    }

    fn forget(&mut self, section: SectionId) {
        let caller = self.callers.remove(&section);
        if caller.is_some_and(|caller| !caller.0.is_answered()) {
            self.asking -= 1;
        }
        self.tell_extending(section, None);
    }
}
