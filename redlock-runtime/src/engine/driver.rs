//! The loop: take what has come in, let the protocol decide, carry out what it wants, sleep
//! until it wants to be woken.

use std::{
    collections::{HashMap, VecDeque},
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use redlock_protocol::{
    Action, Answer, Event, Loss, NodeId, NodeState, Order, Protocol, Refusal, Release, SectionId,
    ShutdownError, Verdict,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Sleep,
};

use super::{
    clock::Clock,
    command::{Command, Keys},
    signal::Signal,
    status::Status,
};
#[cfg(feature = "test-util")]
use crate::node::FaultyLink;
use crate::node::{Memory, Server, Target};

/// How much is taken from the inbox before what the protocol wants is sent.
const LARGEST_INTAKE: usize = 256;

/// The longest sleep. The runtime's timers stop while the machine sleeps and the clock does not,
/// so after a resume the clock is looked at this soon.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// The sleep of an engine that has nothing to wake for.
const FOREVER: Duration = Duration::from_secs(1 << 30);

pub(super) struct Driver {
    protocol: Protocol,
    clock: Clock,
    inbox: mpsc::UnboundedReceiver<Command>,
    nodes: Vec<Node>,
    /// Given by the connections of servers.
    sockets: Arc<Signal>,
    node_states: watch::Sender<Vec<Option<NodeState>>>,
    callers: HashMap<SectionId, Caller>,
    /// What memory nodes have answered.
    answered: VecDeque<Event>,
    shutdowns: Vec<Box<dyn FnOnce(ShutdownError) + Send>>,
    drained: Option<ShutdownError>,
}

enum Node {
    Redis(Box<Server>),
    Memory(Arc<Memory>),
    #[cfg(feature = "test-util")]
    Faulty(Box<FaultyLink>),
}

/// Who waits for what about a lease.
struct Caller {
    status: Arc<Status>,
    acquiring: Option<oneshot::Sender<Result<(), Refusal>>>,
    extending: Vec<oneshot::Sender<Result<(), Vec<Verdict>>>>,
    releasing: Option<oneshot::Sender<Release>>,
}

impl Driver {
    pub(super) fn new(
        protocol: Protocol,
        clock: Clock,
        inbox: mpsc::UnboundedReceiver<Command>,
        nodes: Vec<Target>,
        node_states: watch::Sender<Vec<Option<NodeState>>>,
    ) -> Self {
        let start = |(index, target)| match target {
            Target::Memory(memory) => Node::Memory(memory),
            Target::Redis(endpoint) => Node::Redis(Box::new(Server::new(NodeId(index), endpoint))),
            #[cfg(feature = "test-util")]
            Target::Faulty(faulty) => {
                Node::Faulty(Box::new(FaultyLink::new(NodeId(index), faulty)))
            }
        };
        let mut driver = Self {
            protocol,
            clock,
            inbox,
            nodes: nodes.into_iter().enumerate().map(start).collect(),
            sockets: Arc::default(),
            node_states,
            callers: HashMap::new(),
            answered: VecDeque::new(),
            shutdowns: Vec::new(),
            drained: None,
        };
        // Nodes in memory vote from here on, and not only once the runtime gets around to it.
        driver.carry_out();
        driver
    }

    /// Runs until it is shut down and everything that can be released is.
    pub(super) async fn run(mut self) {
        let mut intake = Vec::with_capacity(LARGEST_INTAKE);
        let mut events = Vec::new();
        let mut sleep = pin!(tokio::time::sleep(Duration::ZERO));
        let left = loop {
            if let Some(left) = self.drained {
                break left;
            }
            let until = tokio::time::Instant::now() + self.until_wakeup();
            // A timer that is early wakes for nothing once; one that is never moved costs less.
            if until < sleep.deadline() || sleep.is_elapsed() {
                sleep.as_mut().reset(until);
            }
            poll_fn(|cx| self.poll_inputs(cx, &mut events, &mut intake, sleep.as_mut())).await;
            events.drain(..).for_each(|event| self.handle(event));
            let is_flood = intake.len() == LARGEST_INTAKE;
            intake
                .drain(..)
                .for_each(|command| self.on_command(command));
            if self.until_wakeup().is_zero() {
                self.handle(Event::Wakeup);
            }
            if is_flood {
                // Sockets become ready only while the thread is left to the runtime, and a node whose
                // answers are not read would be given up.
                tokio::task::yield_now().await;
            }
        };
        self.write_last(&mut events).await;
        self.shutdowns.drain(..).for_each(|done| done(left));
    }

    /// A release that was decided in the last step goes out, though its reply is not awaited any more.
    async fn write_last(&mut self, events: &mut Vec<Event>) {
        let write = poll_fn(|cx| {
            for node in &mut self.nodes {
                if let Node::Redis(server) = node {
                    server.poll(cx, events);
                }
            }
            Poll::Ready(())
        });
        tokio::task::unconstrained(write).await;
    }

    /// Sends what is to be sent, and waits for something to happen.
    fn poll_inputs(
        &mut self,
        cx: &mut Context<'_>,
        events: &mut Vec<Event>,
        intake: &mut Vec<Command>,
        sleep: Pin<&mut Sleep>,
    ) -> Poll<()> {
        let are_ready = self.sockets.take(cx.waker());
        let waker = Waker::from(Arc::clone(&self.sockets));
        let mut of_sockets = Context::from_waker(&waker);
        for node in &mut self.nodes {
            match node {
                Node::Redis(server) if are_ready || server.has_work() => {
                    server.poll(&mut of_sockets, events);
                }
                Node::Redis(_) => {}
                Node::Memory(_) => {}
                #[cfg(feature = "test-util")]
                Node::Faulty(link) => link.poll(cx, events),
            }
        }
        // Ready with nothing once no handle is left, and then at all times.
        let _ = self.inbox.poll_recv_many(cx, intake, LARGEST_INTAKE);
        if !intake.is_empty() || !events.is_empty() {
            return Poll::Ready(());
        }
        sleep.poll(cx)
    }

    fn until_wakeup(&self) -> Duration {
        match self.protocol.next_wakeup() {
            Some(at) => at.since(self.clock.now()).min(LONGEST_SLEEP),
            None => FOREVER,
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Acquire {
                section,
                keys,
                params,
                status,
                answer,
            } => {
                let caller = Caller {
                    status,
                    acquiring: Some(answer),
                    extending: Vec::new(),
                    releasing: None,
                };
                self.callers.insert(section, caller);
                self.handle(match keys {
                    Keys::One(key) => Event::Ask {
                        section,
                        key,
                        params,
                    },
                    Keys::All(keys) => Event::AskAll {
                        section,
                        keys: keys.to_vec(),
                        params,
                    },
                });
            }
            Command::Extend { section, answer } => {
                // Of a lease that is over nothing is heard any more: dropping the sender says so.
                if let Some(caller) = self.callers.get_mut(&section)
                    && caller.status.loss().is_none()
                {
                    caller.extending.push(answer);
                    self.handle(Event::Extend { section });
                }
            }
            Command::End { section, answer } => {
                let report = answer.is_some();
                match self.callers.get_mut(&section) {
                    Some(caller) if report => caller.releasing = answer,
                    _ => drop(self.callers.remove(&section)),
                }
                self.handle(Event::End { section, report });
            }
            Command::Shutdown {
                timeout,
                abort_holders,
                done,
            } => {
                self.shutdowns.push(done);
                self.handle(Event::Shutdown {
                    timeout,
                    abort_holders,
                });
            }
        }
    }

    /// Reads the clock for every event anew: a reply must not be dated back to the start of the
    /// batch it came in, or it could extend a lease that has run out.
    fn handle(&mut self, event: Event) {
        self.protocol.handle(event, self.clock.now());
        self.carry_out();
    }

    fn carry_out(&mut self) {
        loop {
            while let Some(action) = self.protocol.poll_action() {
                self.act(action);
            }
            let Some(event) = self.answered.pop_front() else {
                return;
            };
            self.protocol.handle(event, self.clock.now());
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Connect { node, connection } => match &mut self.nodes[node.0] {
                Node::Redis(server) => server.connect(connection),
                Node::Memory(memory) => self.answered.push_back(Event::Connected {
                    node,
                    connection,
                    facts: memory.facts(),
                }),
                #[cfg(feature = "test-util")]
                Node::Faulty(link) => {
                    link.connect(connection, self.clock.now());
                    self.answered.extend(link.take_due());
                }
            },
            Action::Disconnect { node } => match &mut self.nodes[node.0] {
                Node::Redis(server) => server.disconnect(),
                Node::Memory(_) => {}
                #[cfg(feature = "test-util")]
                Node::Faulty(link) => link.disconnect(),
            },
            Action::Send(order) => self.send(order),
            Action::Answer { section, answer } => self.answer(section, answer),
            Action::NodeChanged { node, state } => {
                self.node_states
                    .send_modify(|states| states[node.0] = Some(state));
            }
            Action::Drained(left) => self.drained = Some(left),
        }
    }

    fn send(&mut self, order: Order) {
        match &mut self.nodes[order.node.0] {
            Node::Redis(server) => server.send(order),
            Node::Memory(memory) => {
                let reply = memory.run(&order.body, self.clock.now());
                self.answered.push_back(Event::Reply {
                    node: order.node,
                    request: order.request,
                    reply,
                });
            }
            #[cfg(feature = "test-util")]
            Node::Faulty(link) => {
                link.send(&order, self.clock.now());
                self.answered.extend(link.take_due());
            }
        }
    }

    /// Passes an answer on. A caller that does not listen any more has asked, or is about to
    /// ask, for the end of its lease.
    fn answer(&mut self, section: SectionId, answer: Answer) {
        let Some(caller) = self.callers.get_mut(&section) else {
            return;
        };
        match answer {
            Answer::Granted { deadline, token } => {
                caller.status.grant(deadline, token);
                if let Some(acquiring) = caller.acquiring.take() {
                    let _ = acquiring.send(Ok(()));
                }
            }
            Answer::Refused(refusal) => {
                if let Some(acquiring) = caller.acquiring.take() {
                    let _ = acquiring.send(Err(refusal));
                }
                self.callers.remove(&section);
            }
            Answer::Extended { deadline } => {
                caller.status.hold_until(deadline);
                for extending in caller.extending.drain(..) {
                    let _ = extending.send(Ok(()));
                }
            }
            Answer::NotExtended { verdicts } => {
                for extending in caller.extending.drain(..) {
                    let _ = extending.send(Err(verdicts.clone()));
                }
            }
            Answer::Over(loss) => {
                caller.status.end(loss);
                caller.extending.clear();
            }
            Answer::Released(release) => {
                if let Some(releasing) = caller.releasing.take() {
                    let _ = releasing.send(release);
                }
                self.callers.remove(&section);
            }
        }
    }
}

/// However the engine ends, by shutdown, by a panic, or because its runtime was dropped: nobody
/// goes on believing in a lease that nobody watches.
impl Drop for Driver {
    fn drop(&mut self) {
        for caller in self.callers.values() {
            caller.status.end(Loss::Stopped);
        }
    }
}

#[cfg(test)]
mod tests {
    use redlock_protocol::Env;

    use super::*;

    #[tokio::test]
    async fn an_engine_without_handles_sleeps() {
        let (inbox, received) = mpsc::unbounded_channel();
        let env = Env {
            random: Box::new(|| 1),
            wall_micros: Box::new(|| 1),
        };
        let settings = redlock_protocol::Settings {
            silence_limit: LONGEST_SLEEP,
            may_evict: false,
            max_ttl: LONGEST_SLEEP,
            default_ttl: LONGEST_SLEEP,
            assume_fresh: false,
            busy_from: redlock_protocol::BUSY_FROM,
            mixed_fleet: false,
        };
        let protocol = Protocol::new(0, settings, env, Clock::System.now());
        let (states, _) = watch::channel(Vec::new());
        let mut driver = Driver::new(protocol, Clock::System, received, Vec::new(), states);
        drop(inbox);
        let mut sleep = pin!(tokio::time::sleep(FOREVER));
        let mut cx = Context::from_waker(Waker::noop());
        let (mut events, mut intake) = (Vec::new(), Vec::new());
        let polled = driver.poll_inputs(&mut cx, &mut events, &mut intake, sleep.as_mut());
        assert!(polled.is_pending());
    }
}
