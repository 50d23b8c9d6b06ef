//! Requests on their way: which node still owes which answer.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use super::{
    action::{Action, NodeState},
    link::Link,
    message::{AttemptId, ConnectionId, Facts, Fault, LeaseId, NodeId, Owner, Request, RequestId},
    quorum,
    time::Instant,
    timer::{Timer, Timers},
};

/// Timers that are much shorter cost more than the requests that they save.
const SHORTEST_PATIENCE: Duration = Duration::from_millis(10);

/// What an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To find out whether the node may vote.
    Verify,
    /// To find out where the counters of this other node must start.
    Reseed {
        of: NodeId,
    },
    Acquire {
        lease: LeaseId,
        owner: Owner,
        /// A lease may make several under one owner: ahead of its turn, and in it.
        attempt: AttemptId,
    },
    Confirm {
        lease: LeaseId,
        attempt: AttemptId,
    },
    Extend {
        lease: LeaseId,
        extension: u32,
    },
    Watch {
        lease: LeaseId,
        owner: Owner,
    },
    /// To find out whether a lock that somebody else held is free.
    Await {
        lease: LeaseId,
    },
    Release {
        owner: Owner,
    },
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
    kept_back: Vec<Vec<Sent>>,
    next_request: u64,
    next_connection: u64,
    pub(super) timers: Timers,
    pub(super) actions: VecDeque<Action>,
    pub(super) settings: Settings,
}

/// A node that owes so many answers is busy. One worker makes none so, and of a line of them only one
/// with short sections, which are asked for ahead.
pub(crate) const BUSY_FROM: usize = 2;

/// What is asked of nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// A connection must be made within this time, and a connected node that owes an answer
    /// for as long is given up.
    pub(crate) silence_limit: Duration,
    /// Whether a node may vote that drops keys when memory runs out.
    pub(crate) may_evict: bool,
    /// How long a node that may have lost its memory must not vote: longer than any key that it
    /// may have forgotten lives.
    pub(crate) quarantine: Duration,
    /// The same for nodes of which nobody knows anything, all of them being new.
    pub(crate) fresh_quarantine: Duration,
    /// From how many owed answers on a node counts as busy.
    pub(crate) busy_from: usize,
}

/// What a look at a node finds to do.
#[derive(Debug)]
pub(super) enum Due {
    /// Its connection, or the attempt to make one, has been given up.
    Disconnected(Arc<str>),
    /// Its quarantine is over.
    Verify,
}

impl Wire {
    /// Starts to connect to all nodes.
    pub(super) fn new(nodes: usize, settings: Settings, now: Instant) -> Self {
        let mut wire = Self {
            links: (0..nodes).map(|_| Link::new()).collect(),
            sent: BTreeMap::new(),
            kept_back: (0..nodes).map(|_| Vec::new()).collect(),
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

    /// Why no vote can be asked for, if it cannot.
    pub(super) fn fault(&self, node: NodeId, now: Instant) -> Option<Fault> {
        self.links[node.0].fault(now)
    }

    pub(super) fn is_up(&self, node: NodeId) -> bool {
        self.links[node.0].is_up()
    }

    /// The process that it is, where it tells.
    pub(super) fn server(&self, node: NodeId) -> Option<Arc<str>> {
        self.links[node.0].server.clone()
    }

    /// It votes, and answers within `patience`, both as a rule and at present.
    pub(super) fn is_prompt(&self, node: NodeId, patience: Duration, now: Instant) -> bool {
        let is_late = |oldest| now.since(oldest) > patience;
        let is_slow = |usual| usual > patience;
        self.is_up(node)
            && !self.oldest(node).is_some_and(is_late)
            && !self.links[node.0].usual_delay(now).is_some_and(is_slow)
    }

    /// How long a node takes to answer as a rule; nothing where that was not seen lately.
    pub(super) fn usual_delay(&self, node: NodeId, now: Instant) -> Duration {
        self.links[node.0].usual_delay(now).unwrap_or_default()
    }

    /// Most nodes have enough to do, so that they should not be asked what need not be asked. Not
    /// so where only some owe answers, because they are slow.
    pub(super) fn is_busy(&self) -> bool {
        let busy = |link: &&Link| link.outstanding >= self.settings.busy_from;
        self.links.iter().filter(busy).count() >= quorum::majority(self.links.len())
    }

    /// How long nodes that are asked before the others may take: several times as long as a
    /// majority does as a rule.
    pub(super) fn patience(&self, now: Instant) -> Duration {
        let delays = self.links.iter().filter_map(|link| link.usual_delay(now));
        let mut delays: Vec<Duration> = delays.collect();
        delays.sort_unstable();
        let last = delays.get(quorum::majority(self.node_count()) - 1);
        last.map_or(SHORTEST_PATIENCE, |&delay| {
            (4 * delay).max(SHORTEST_PATIENCE)
        })
    }

    /// It has not come to anything yet.
    pub(super) fn is_settling(&self, node: NodeId) -> bool {
        self.links[node.0].is_settling()
    }

    pub(super) fn is_connected(&self, node: NodeId) -> bool {
        self.links[node.0].is_connected()
    }

    pub(super) fn is_verifying(&self, node: NodeId) -> bool {
        self.links[node.0].is_verifying()
    }

    pub(super) fn is_current(&self, node: NodeId, connection: ConnectionId) -> bool {
        self.links[node.0].connection == Some(connection)
    }

    /// Asks for a vote, or says at once why that cannot be. While the node is being verified
    /// the request is kept back, and comes out of `on_admitted`.
    pub(super) fn ask(
        &mut self,
        node: NodeId,
        purpose: Purpose,
        body: Request,
        now: Instant,
    ) -> Result<(), Fault> {
        if let Some(fault) = self.fault(node, now) {
            return Err(fault);
        }
        if self.is_verifying(node) {
            self.keep_back(
                node,
                Sent {
                    purpose,
                    body,
                    at: now,
                },
            );
            return Ok(());
        }
        self.send(node, purpose, body, now);
        Ok(())
    }

    /// Sends what needs no vote; nothing happens if the node is not connected.
    pub(super) fn send(&mut self, node: NodeId, purpose: Purpose, body: Request, now: Instant) {
        self.send_script(node, purpose, body, false, now);
    }

    /// Sends again what a node did not carry out for want of the script.
    pub(super) fn send_with_source(&mut self, node: NodeId, sent: Sent, now: Instant) {
        self.send_script(node, sent.purpose, sent.body, true, now);
    }

    /// Keeps a request until the node is known to vote.
    pub(super) fn keep_back(&mut self, node: NodeId, sent: Sent) {
        self.kept_back[node.0].push(sent);
    }

    /// Takes the requests that were kept back.
    pub(super) fn take_kept_back(&mut self, node: NodeId) -> Vec<Sent> {
        std::mem::take(&mut self.kept_back[node.0])
    }

    fn send_script(
        &mut self,
        node: NodeId,
        purpose: Purpose,
        body: Request,
        with_source: bool,
        now: Instant,
    ) {
        let link = &mut self.links[node.0];
        if !link.is_connected() {
            return;
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
            server: link.server.clone(),
            with_source,
        });
        let sent = Sent {
            purpose,
            body,
            at: now,
        };
        self.sent.insert((node, request), sent);
    }

    /// What the next request that is sent will be called.
    pub(super) const fn next_request(&self) -> RequestId {
        RequestId(self.next_request)
    }

    /// Takes the request that was answered; `None` if its connection has been given up.
    pub(super) fn on_reply(
        &mut self,
        node: NodeId,
        request: RequestId,
        now: Instant,
    ) -> Option<Sent> {
        let sent = self.sent.remove(&(node, request))?;
        self.links[node.0].on_answer(now.since(sent.at), now);
        Some(sent)
    }

    /// True if the node can be verified now. One that must not vote at all is given up, and
    /// tried again in case the server is mended.
    pub(super) fn on_connected(
        &mut self,
        node: NodeId,
        facts: &Facts,
        random: u128,
        now: Instant,
    ) -> bool {
        let state = self.flaw(node, facts);
        if !self.links[node.0].on_connected(facts.server.clone()) {
            return false;
        }
        self.timers.cancel(Timer::Node(node));
        let Some(state) = state else {
            return true;
        };
        self.actions.push_back(Action::Disconnect { node });
        self.links[node.0].on_down(state.to_string().into(), random, now);
        self.arm(node);
        self.actions.push_back(Action::NodeChanged { node, state });
        false
    }

    pub(super) fn on_verifying(&mut self, node: NodeId) {
        self.links[node.0].on_verifying();
    }

    /// The process behind the connection is another one than was thought.
    pub(super) fn on_identity(&mut self, node: NodeId, server: Option<Arc<str>>) {
        self.links[node.0].server = server;
    }

    /// It keeps its connection and has no vote until then, for the reason that `state` tells.
    pub(super) fn on_barred(&mut self, node: NodeId, until: Instant, state: NodeState) {
        self.links[node.0].on_quarantined(until);
        self.arm(node);
        self.actions.push_back(Action::NodeChanged { node, state });
    }

    pub(super) fn on_admitted(&mut self, node: NodeId) {
        self.links[node.0].on_admitted();
        let state = NodeState::Up;
        self.actions.push_back(Action::NodeChanged { node, state });
    }

    /// What keeps a node from ever voting as it is.
    fn flaw(&self, node: NodeId, facts: &Facts) -> Option<NodeState> {
        if let (Some(policy), false) = (&facts.evicts, self.settings.may_evict) {
            return Some(NodeState::Evicts(Arc::clone(policy)));
        }
        let twin = self.nodes().find(|&other| {
            let link = &self.links[other.0];
            let same = facts.server.is_some() && link.server == facts.server;
            other != node && link.is_connected() && same
        });
        twin.map(NodeState::SameServer)
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
        let mut unanswered: Vec<Sent> = unanswered.into_values().collect();
        unanswered.append(&mut self.kept_back[node.0]);
        unanswered
    }

    /// Looks at the clock for one node.
    pub(super) fn on_due(&mut self, node: NodeId, now: Instant) -> Option<Due> {
        let link = &self.links[node.0];
        let limit = self
            .oldest(node)
            .map(|oldest| oldest.after(self.settings.silence_limit));
        let reason = if limit.is_some_and(|limit| now >= limit) {
            "no answer for"
        } else if link.has_served_quarantine(now) {
            limit.inspect(|&limit| self.timers.wake_by(Timer::Node(node), limit));
            return Some(Due::Verify);
        } else if link.may_connect(now) {
            self.connect(node, now);
            return None;
        } else if link.is_overdue(self.settings.silence_limit, now) {
            "no connection within"
        } else {
            self.arm(node);
            limit.inspect(|&limit| self.timers.wake_by(Timer::Node(node), limit));
            return None;
        };
        self.actions.push_back(Action::Disconnect { node });
        let reason = format!("{reason} {:?}", self.settings.silence_limit);
        Some(Due::Disconnected(reason.into()))
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
