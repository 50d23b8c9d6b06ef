//! The loop: take what has come in, let the protocol decide, carry out what it wants, sleep
//! until it wants to be woken.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::sync::{mpsc, oneshot, watch};

use super::{Command, Input, Status, clock::Clock};
use crate::{
    node::{self, Memory, Order, Target},
    protocol::{
        Action, Answer, Drained, Event, Facts, LeaseId, Loss, NodeId, NodeState, Outcome, Protocol,
        Refusal, Vote,
    },
};

/// How much is taken from the inbox before the protocol's actions reach the nodes' tasks.
const LARGEST_INTAKE: usize = 256;

/// The longest sleep. The runtime's timers stop while the machine sleeps and the clock does not,
/// so after a resume the clock is looked at this soon.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

pub(super) struct Driver {
    protocol: Protocol,
    clock: Clock,
    inbox: mpsc::UnboundedReceiver<Input>,
    nodes: Vec<Node>,
    board: watch::Sender<Vec<Option<NodeState>>>,
    callers: HashMap<LeaseId, Caller>,
    /// What memory nodes have answered.
    answered: VecDeque<Event>,
    shutdowns: Vec<Box<dyn FnOnce(Drained) + Send>>,
    drained: bool,
}

enum Node {
    Redis(mpsc::UnboundedSender<Order>),
    Memory(Arc<Memory>),
}

/// Who waits for what about a lease.
struct Caller {
    status: Arc<Status>,
    acquiring: Option<oneshot::Sender<Result<(), Refusal>>>,
    extending: Vec<oneshot::Sender<Result<(), Vec<Vote>>>>,
    releasing: Option<oneshot::Sender<Outcome>>,
}

impl Driver {
    /// Must be called within the runtime that is to run it and the nodes.
    pub(super) fn new(
        protocol: Protocol,
        clock: Clock,
        inbox: mpsc::UnboundedReceiver<Input>,
        events: mpsc::UnboundedSender<Input>,
        nodes: Vec<Target>,
        board: watch::Sender<Vec<Option<NodeState>>>,
    ) -> Self {
        let start = |(index, target)| match target {
            Target::Memory(memory) => Node::Memory(memory),
            Target::Redis(info) => {
                let (orders, received) = mpsc::unbounded_channel();
                let events = events.clone();
                tokio::spawn(node::serve(NodeId(index), info, received, move |batch| {
                    let _ = events.send(Input::Nodes(batch));
                }));
                Node::Redis(orders)
            }
        };
        Self {
            protocol,
            clock,
            inbox,
            nodes: nodes.into_iter().enumerate().map(start).collect(),
            board,
            callers: HashMap::new(),
            answered: VecDeque::new(),
            shutdowns: Vec::new(),
            drained: false,
        }
    }

    /// Runs until it is shut down and everything that can be released is.
    pub(super) async fn run(mut self) {
        let mut intake = Vec::with_capacity(LARGEST_INTAKE);
        self.carry_out();
        while !self.drained {
            let sleep = self.until_wakeup();
            let received = self.inbox.recv_many(&mut intake, LARGEST_INTAKE);
            if tokio::time::timeout(sleep, received).await.is_ok() {
                intake.drain(..).for_each(|input| self.take(input));
            }
            if self.until_wakeup().is_zero() {
                self.handle(Event::Wakeup);
            }
        }
    }

    fn until_wakeup(&self) -> Duration {
        match self.protocol.next_wakeup() {
            Some(at) => at.since(self.clock.now()).min(LONGEST_SLEEP),
            None => Duration::MAX,
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Nodes(events) => events.into_iter().for_each(|event| self.handle(event)),
            Input::Command(command) => self.on_command(command),
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Acquire {
                lease,
                key,
                terms,
                status,
                answer,
            } => {
                let caller = Caller {
                    status,
                    acquiring: Some(answer),
                    extending: Vec::new(),
                    releasing: None,
                };
                self.callers.insert(lease, caller);
                self.handle(Event::Ask { lease, key, terms });
            }
            Command::Extend { lease, answer } => {
                // Of a lease that is over nothing is heard any more: dropping the sender says so.
                if let Some(caller) = self.callers.get_mut(&lease)
                    && caller.status.loss().is_none()
                {
                    caller.extending.push(answer);
                    self.handle(Event::Extend { lease });
                }
            }
            Command::End { lease, answer } => {
                let report = answer.is_some();
                match self.callers.get_mut(&lease) {
                    Some(caller) if report => caller.releasing = answer,
                    _ => drop(self.callers.remove(&lease)),
                }
                self.handle(Event::End { lease, report });
            }
            Command::Shutdown {
                timeout,
                cut_off,
                done,
            } => {
                self.shutdowns.push(done);
                self.handle(Event::Shutdown { timeout, cut_off });
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
            Action::Connect { node, connection } => match &self.nodes[node.0] {
                Node::Redis(orders) => drop(orders.send(Order::Connect(connection))),
                Node::Memory(memory) => self.answered.push_back(Event::Connected {
                    node,
                    connection,
                    facts: Facts {
                        server: Some(format!("{:p}", Arc::as_ptr(memory)).into()),
                        ..Facts::default()
                    },
                }),
            },
            Action::Disconnect { node } => {
                if let Node::Redis(orders) = &self.nodes[node.0] {
                    let _ = orders.send(Order::Disconnect);
                }
            }
            Action::Send {
                node,
                request,
                body,
                server,
                with_source,
            } => match &self.nodes[node.0] {
                Node::Redis(orders) => drop(orders.send(Order::Send {
                    request,
                    body,
                    server,
                    with_source,
                })),
                Node::Memory(memory) => {
                    let reply = memory.run(&body, self.clock.now());
                    self.answered.push_back(Event::Reply {
                        node,
                        request,
                        reply,
                    });
                }
            },
            Action::Answer { lease, answer } => self.answer(lease, answer),
            Action::NodeChanged { node, state } => {
                self.board.send_modify(|board| board[node.0] = Some(state));
            }
            Action::Drained(left) => {
                self.drained = true;
                self.shutdowns.drain(..).for_each(|done| done(left));
            }
        }
    }

    /// Passes an answer on. A caller that does not listen any more has asked, or is about to
    /// ask, for the end of its lease.
    fn answer(&mut self, lease: LeaseId, answer: Answer) {
        let Some(caller) = self.callers.get_mut(&lease) else {
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
                self.callers.remove(&lease);
            }
            Answer::Extended { deadline } => {
                caller.status.hold_until(deadline);
                for extending in caller.extending.drain(..) {
                    let _ = extending.send(Ok(()));
                }
            }
            Answer::NotExtended { votes } => {
                for extending in caller.extending.drain(..) {
                    let _ = extending.send(Err(votes.clone()));
                }
            }
            Answer::Over(loss) => {
                caller.status.end(loss);
                caller.extending.clear();
            }
            Answer::Released(outcome) => {
                if let Some(releasing) = caller.releasing.take() {
                    let _ = releasing.send(outcome);
                }
                self.callers.remove(&lease);
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
