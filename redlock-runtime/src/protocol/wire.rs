//! Requests on their way: which node still owes which answer.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use super::{
    action::{Action, NodeState},
    link::Link,
    message::{ConnectionId, Facts, Fault, LeaseId, NodeId, Owner, Request, RequestId},
    time::Instant,
    timer::{Timer, Timers},
};

/// What an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Acquire { lease: LeaseId, owner: Owner },
    Confirm { lease: LeaseId, owner: Owner },
    Extend { lease: LeaseId, extension: u32 },
    Release { owner: Owner },
}

/// A request without an answer.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) purpose: Purpose,
    pub(super) body: Request,
    at: Instant,
}

/// All nodes' connections and the requests on them, the timers, and what the engine is to do.
#[derive(Debug)]
pub(super) struct Wire {
    links: Vec<Link>,
    sent: BTreeMap<(NodeId, RequestId), Sent>,
    next_request: u64,
    next_connection: u64,
    pub(super) timers: Timers,
    pub(super) actions: VecDeque<Action>,
    settings: Settings,
}

/// What is asked of nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// A connection must be made within this time, and a connected node that owes an answer
    /// for as long is given up.
    pub(crate) silence_limit: Duration,
    /// Whether a node may vote that drops keys when memory runs out.
    pub(crate) may_evict: bool,
}

impl Wire {
    /// Starts to connect to all nodes.
    pub(super) fn new(nodes: usize, settings: Settings, now: Instant) -> Self {
        let mut wire = Self {
            links: (0..nodes).map(|_| Link::new()).collect(),
            sent: BTreeMap::new(),
            next_request: 0,
            next_connection: 0,
            timers: Timers::default(),
            actions: VecDeque::new(),
            settings,
        };
        for node in wire.nodes() {
            wire.connect(node, now);
        }
        wire
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.links.len()).map(NodeId)
    }

    pub(super) fn node_count(&self) -> usize {
        self.links.len()
    }

    pub(super) fn is_up(&self, node: NodeId) -> bool {
        self.links[node.0].is_up()
    }

    pub(super) fn is_current(&self, node: NodeId, connection: ConnectionId) -> bool {
        self.links[node.0].connection == Some(connection)
    }

    /// Sends, or says at once why that cannot be.
    pub(super) fn send(
        &mut self,
        node: NodeId,
        purpose: Purpose,
        body: Request,
        now: Instant,
    ) -> Result<(), Fault> {
        self.send_script(node, purpose, body, false, now)
    }

    /// Sends again what a node did not carry out for want of the script.
    pub(super) fn send_with_source(&mut self, node: NodeId, sent: Sent, now: Instant) {
        // A connection that has just answered is up.
        let _ = self.send_script(node, sent.purpose, sent.body, true, now);
    }

    fn send_script(
        &mut self,
        node: NodeId,
        purpose: Purpose,
        body: Request,
        with_source: bool,
        now: Instant,
    ) -> Result<(), Fault> {
        let link = &mut self.links[node.0];
        if let Some(fault) = link.fault() {
            return Err(fault);
        }
        if link.outstanding == 0 {
            let limit = now.after(self.settings.silence_limit);
            self.timers.wake_by(Timer::Node(node), limit);
        }
        link.outstanding += 1;
        let request = RequestId(self.next_request);
        self.next_request += 1;
        self.actions.push_back(Action::Send {
            node,
            request,
            body: body.clone(),
            with_source,
        });
        let sent = Sent {
            purpose,
            body,
            at: now,
        };
        self.sent.insert((node, request), sent);
        Ok(())
    }

    /// Takes the request that was answered; `None` if its connection has been given up.
    pub(super) fn on_reply(&mut self, node: NodeId, request: RequestId) -> Option<Sent> {
        let sent = self.sent.remove(&(node, request))?;
        self.links[node.0].on_answer();
        Some(sent)
    }

    /// True if the node may vote now. Where it may not, the connection is given up, and tried
    /// again in case the server is mended.
    pub(super) fn on_connected(
        &mut self,
        node: NodeId,
        facts: Facts,
        random: u128,
        now: Instant,
    ) -> bool {
        let state = self.state_by(node, &facts);
        if !self.links[node.0].on_connected(facts.server) {
            return false;
        }
        self.timers.cancel(Timer::Node(node));
        let may_vote = state == NodeState::Up;
        if !may_vote {
            self.actions.push_back(Action::Disconnect { node });
            self.links[node.0].on_down(state.to_string().into(), random, now);
            self.arm(node);
        }
        self.actions.push_back(Action::NodeChanged { node, state });
        may_vote
    }

    fn state_by(&self, node: NodeId, facts: &Facts) -> NodeState {
        if let (Some(policy), false) = (&facts.evicts, self.settings.may_evict) {
            return NodeState::Evicts(Arc::clone(policy));
        }
        let twin = self.nodes().find(|&other| {
            let link = &self.links[other.0];
            other != node && link.is_up() && facts.server.is_some() && link.server == facts.server
        });
        twin.map_or(NodeState::Up, NodeState::SameServer)
    }

    /// Takes the requests that will get no answer any more.
    pub(super) fn on_disconnected(
        &mut self,
        node: NodeId,
        reason: &Arc<str>,
        random: u128,
        now: Instant,
    ) -> Vec<Sent> {
        self.links[node.0].on_down(Arc::clone(reason), random, now);
        self.timers.cancel(Timer::Node(node));
        self.arm(node);
        self.actions.push_back(Action::NodeChanged {
            node,
            state: NodeState::Down(Arc::clone(reason)),
        });
        let after = self.sent.split_off(&(NodeId(node.0 + 1), RequestId(0)));
        let unanswered = self.sent.split_off(&(node, RequestId(0)));
        self.sent.extend(after);
        unanswered.into_values().collect()
    }

    /// Looks at the clock for one node. `Some` if its connection, or the attempt to make one,
    /// has been given up: `on_disconnected` is to follow.
    pub(super) fn on_due(&mut self, node: NodeId, now: Instant) -> Option<Arc<str>> {
        let link = &self.links[node.0];
        let reason = if link.is_up() {
            let limit = self.oldest(node)?.after(self.settings.silence_limit);
            if now < limit {
                self.timers.wake_by(Timer::Node(node), limit);
                return None;
            }
            "no answer for"
        } else if link.may_connect(now) {
            self.connect(node, now);
            return None;
        } else if link.is_overdue(self.settings.silence_limit, now) {
            "no connection within"
        } else {
            self.arm(node);
            return None;
        };
        self.actions.push_back(Action::Disconnect { node });
        Some(format!("{reason} {:?}", self.settings.silence_limit).into())
    }

    fn connect(&mut self, node: NodeId, now: Instant) {
        let connection = ConnectionId(self.next_connection);
        self.next_connection += 1;
        self.links[node.0].on_connecting(connection, now);
        self.actions.push_back(Action::Connect { node, connection });
        self.arm(node);
    }

    fn arm(&mut self, node: NodeId) {
        if let Some(at) = self.links[node.0].next_due(self.settings.silence_limit) {
            self.timers.wake_by(Timer::Node(node), at);
        }
    }

    fn oldest(&self, node: NodeId) -> Option<Instant> {
        let first = (node, RequestId(0));
        let (&(owing, _), sent) = self.sent.range(first..).next()?;
        (owing == node).then_some(sent.at)
    }
}
