//! All nodes: what is sent to them and comes back, who can vote, and the surveys by which nodes
//! that have lost their memory are let in again.

use std::{sync::Arc, time::Duration};

use super::{
    Node, Notice, Out, Purpose,
    admission::{self, Standing},
    link::InFlight,
    refuses,
    survey::Reading,
};
use crate::{
    action::{Action, NodeState, Order, Verdict},
    message::{
        AdmissionId, ConnectionId, Facts, LossId, NodeId, Process, Reply, Request, RequestId,
    },
    purpose::{Ask, KeyId},
    rules::{key_names::stripe, quorum},
    time::Instant,
    unreachable::Why,
};

/// If several ask at once, those that give up sooner make others see a holder that is none.
const SHORTEST_HEDGE_DELAY: Duration = Duration::from_millis(10);

/// With a shorter one, more requests are sent because the client itself was late.
const SHORTEST_MAJORITY_DELAY: Duration = Duration::from_millis(2);

/// How many bytes a request takes up beside its key, about.
const REQUEST: usize = 256;

#[derive(Debug)]
pub(crate) struct Nodes {
    pub(super) nodes: Vec<Node>,
    /// This client.
    process: Process,
    next_request: u64,
    next_connection: u64,
    pub(super) survey: Option<Reading>,
    /// The losses of all nodes, if all were new in the last survey.
    pub(super) all_new: Option<Vec<LossId>>,
}

impl Nodes {
    pub(crate) fn new(nodes: usize, process: Process) -> Self {
        Self {
            nodes: (0..nodes).map(|node| Node::new(NodeId(node))).collect(),
            process,
            // Zero stands for a node that was never asked: see `Claim::was_asked`.
            next_request: 1,
            next_connection: 0,
            survey: None,
            all_new: None,
        }
    }

    // ---- questions

    pub(crate) fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len()).map(NodeId)
    }

    pub(crate) const fn count(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) const fn process(&self) -> Process {
        self.process
    }

    /// Why no vote can be asked for, if none can.
    pub(crate) fn verdict(&self, node: NodeId, now: Instant) -> Option<Verdict> {
        self.nodes[node.0].verdict(now)
    }

    pub(crate) fn is_connected(&self, node: NodeId) -> bool {
        self.nodes[node.0].link.is_connected()
    }

    /// It is known to vote.
    pub(crate) fn is_up(&self, node: NodeId) -> bool {
        self.nodes[node.0].is_up()
    }

    /// Enough nodes can be asked for a majority.
    pub(crate) fn has_majority(&self, now: Instant) -> bool {
        // Those that are being probed count: whether they vote is known a round trip later.
        let able = |node: &&Node| node.verdict(now).is_none();
        self.nodes.iter().filter(able).count() >= quorum::majority(self.nodes.len())
    }

    /// It tells of changes to keys that were read.
    pub(crate) fn tells_changes(&self, node: NodeId) -> bool {
        let link = &self.nodes[node.0].link;
        link.is_connected() && link.facts.tells_changes
    }

    /// How long a node usually takes to reply; zero if that is not known.
    pub(crate) fn usual_round_trip(&self, node: NodeId) -> Duration {
        self.nodes[node.0].link.usual_delay.unwrap_or_default()
    }

    /// How long a node took to reply last; `None` if it has not over this connection.
    pub(crate) fn round_trip(&self, node: NodeId) -> Option<Duration> {
        self.nodes[node.0].link.delay
    }

    /// A majority of the nodes owes this process at least this number of replies, each.
    pub(crate) fn are_busy(&self, busy_from: usize) -> bool {
        let busy = |node: &&Node| node.link.outstanding() >= busy_from;
        self.nodes.iter().filter(busy).count() >= quorum::majority(self.nodes.len())
    }

    /// How long nodes that are asked before the others may take: several times as long as a
    /// majority did last. With a constant in its place, nodes that are 20 to 30 ms away get 1.6 to 1.8
    /// times as many commands; with a quarter of the node timeout, the longest wait beside a silent node
    /// is eleven times as long.
    pub(crate) fn hedge_delay(&self) -> Duration {
        self.majority_delay().max(SHORTEST_HEDGE_DELAY)
    }

    /// That pause if a majority was asked first. Shorter, because asking the others needlessly costs some requests,
    /// and disturbs no process that has asked at the same instant.
    pub(crate) fn majority_delay(&self) -> Duration {
        let majority = quorum::majority(self.nodes.len());
        let delays = || self.nodes.iter().filter_map(|node| node.link.delay);
        let of_majority =
            |last: &Duration| delays().filter(|delay| delay <= last).count() >= majority;
        let delay = delays().filter(of_majority).min();
        let delay = delay.map_or(Duration::ZERO, |delay| 4 * delay);
        delay.max(SHORTEST_MAJORITY_DELAY)
    }

    /// The nodes that can be asked, in the order in which to ask them. The order is the same for every client
    /// and different for each key, except that nodes that do not reply come last: beside a silent node, that
    /// is worth a factor of 1.7 in cycles of 64 workers.
    ///
    /// With `useful_first`, nodes that were of no use a little while ago come last, too: otherwise a node that
    /// is always late or refuses for good would delay most locks. Of attempts that ask one node first, all clients
    /// have to ask the same one: only a node that refuses votes comes last there.
    pub(crate) fn order(
        &self,
        key: &str,
        patience: Duration,
        useful_first: bool,
        now: Instant,
    ) -> Vec<NodeId> {
        let mut order: Vec<NodeId> = self.able(key, now).collect();
        order.sort_by_key(|&node| {
            let this = &self.nodes[node.0];
            let is_of_no_use = match useful_first {
                true => this.was_of_no_use(patience, now),
                false => this.refuses_votes,
            };
            is_of_no_use || self.is_silent(node, patience, now)
        });
        order
    }

    /// Whom all clients ask first that can: the node that keeps the queue for the key.
    pub(crate) fn leader(
        &self,
        key: &str,
        patience: impl Fn(NodeId) -> Duration,
        now: Instant,
    ) -> Option<NodeId> {
        let keeps_none = |node: &NodeId| {
            self.nodes[node.0].refuses_votes || self.is_silent(*node, patience(*node), now)
        };
        self.able(key, now).min_by_key(keeps_none)
    }

    /// Those that vote, in the order in which all processes ask them for this key.
    pub(crate) fn able(&self, key: &str, now: Instant) -> impl Iterator<Item = NodeId> {
        let able = move |node: &NodeId| self.verdict(*node, now).is_none();
        self.in_order(key).filter(able)
    }

    /// It has not replied for so long, or is not known to vote.
    pub(crate) fn is_silent(&self, node: NodeId, patience: Duration, now: Instant) -> bool {
        !self.is_up(node) || self.nodes[node.0].link.waiting_for(now) >= patience
    }

    /// To anything, after that.
    pub(crate) fn has_replied(&self, node: NodeId, since: Instant) -> bool {
        self.is_up(node) && self.nodes[node.0].link.replied_at > since
    }

    pub(crate) fn in_order(&self, key: &str) -> impl Iterator<Item = NodeId> + use<> {
        let nodes = self.nodes.len();
        // By the stripe, so that the slots of one lock have one order.
        let first = stripe(key) as usize % nodes;
        (first..first + nodes).map(move |node| NodeId(node % nodes))
    }

    pub(crate) fn next_due(&self, out: &Out) -> Option<Instant> {
        self.nodes
            .iter()
            .filter_map(|node| node.next_due(out))
            .min()
    }

    /// A connected node has not confirmed all releases.
    pub(crate) fn owe_releases(&self) -> bool {
        self.nodes.iter().any(|node| node.link.owes_releases())
    }

    // ---- requests of keys

    /// Asks for a vote that is to come within `limit`, or says at once why that cannot be. `None`: it is not
    /// known yet whether the node votes. A notice says when it is.
    pub(crate) fn ask(
        &mut self,
        node: NodeId,
        (key, ask): (KeyId, Ask),
        limit: Duration,
        body: impl FnOnce(AdmissionId) -> Request,
        out: &mut Out,
    ) -> Result<Option<RequestId>, Verdict> {
        if let Some(verdict) = self.verdict(node, out.now) {
            return Err(verdict);
        }
        // It owes so much that this vote would come too late, and the key would have to be released.
        if self.nodes[node.0].link.is_behind(limit) {
            return Err(Verdict::TimedOut);
        }
        let Standing::Up(admission) = self.nodes[node.0].standing else {
            return Ok(None);
        };
        let (purpose, body) = (Purpose::Key(key, ask), body(admission));
        Ok(Some(self.send(node, purpose, body, out)))
    }

    /// Sends what needs no vote. False if the node is not connected.
    pub(crate) fn tell(
        &mut self,
        node: NodeId,
        (key, ask): (KeyId, Ask),
        body: Request,
        out: &mut Out,
    ) -> bool {
        let is_connected = self.is_connected(node);
        if is_connected {
            self.send(node, Purpose::Key(key, ask), body, out);
        }
        is_connected
    }

    /// A lock has seen that the node's clock has gained too much. It has no vote until all that it may
    /// have dropped early has expired.
    pub(crate) fn suspend(&mut self, node: NodeId, by: Duration, out: &mut Out) {
        let this = &mut self.nodes[node.0];
        // See below the assumptions in the guarantees: such a process also skips the pause after `ClockAhead`.
        if out.settings.assume_fresh {
            return;
        }
        // The clock may have dropped any key early, however long its lease: of any process.
        let until = out.now.after(out.settings.max_ttl);
        this.suspended = Some((by, until));
        if this.is_up() {
            this.announce(NodeState::ClockAhead { by, until }, out);
        }
    }

    pub(super) fn send(
        &mut self,
        node: NodeId,
        purpose: Purpose,
        body: Request,
        out: &mut Out,
    ) -> RequestId {
        let request = RequestId(self.next_request);
        // Numbers rise, so that a reply can be compared with requests that came later.
        self.next_request += 1;
        let this = &mut self.nodes[node.0];
        this.link.on_sent(InFlight {
            request,
            purpose,
            at: out.now,
            size: REQUEST + body.key().map_or(0, |key| key.len()),
        });
        let order = Order {
            node,
            request,
            body,
        };
        out.actions.push_back(Action::Send(order));
        request
    }

    // ---- events

    pub(crate) fn on_reply(
        &mut self,
        node: NodeId,
        request: RequestId,
        reply: Reply,
        out: &mut Out,
    ) {
        // A reply on a connection that was given up: its request was counted as failed.
        let Some(sent) = self.nodes[node.0].link.on_reply(request, out.now) else {
            return;
        };
        // An error is no proof that the node is well again.
        if let Some(interval) = out.settings.ping_interval
            && !matches!(reply, Reply::Refused { .. })
        {
            self.nodes[node.0].on_answering(interval, out);
        }
        let Purpose::Key(key, ask) = sent.purpose else {
            return self.on_own_reply(node, sent.purpose, reply, out);
        };
        if !matches!(ask, Ask::Watch(_) | Ask::Await | Ask::Stand(_)) {
            self.nodes[node.0].on_answer(ask, &reply, out);
        }
        if reply == Reply::NotAdmitted {
            // The server may be another process, or may have lost its memory: no vote counts before
            // that is known.
            self.verify(node, out);
        }
        self.nodes[node.0].on_number(&reply);
        let notice = Notice::Reply(key, ask, (node, request), Ok(reply));
        out.notices.push_back(notice);
    }

    /// A reply to a request of the admission.
    fn on_own_reply(&mut self, node: NodeId, purpose: Purpose, reply: Reply, out: &mut Out) {
        let was_up = self.is_up(node);
        let this = &mut self.nodes[node.0];
        match (purpose, reply) {
            (Purpose::Identify, Reply::Identity { server }) => {
                this.link.on_identity(server);
                // It may be another process, and that one the twin of a node that votes already.
                if !self.give_up_unusable(node, out) {
                    self.send(node, Purpose::Probe, Request::Probe, out);
                }
            }
            (Purpose::Admit, Reply::Admitted { admission }) => {
                this.on_admitted(admission, out);
            }
            (purpose, Reply::Record(record)) => {
                let record = admission::believed(*record, out.settings.assume_fresh);
                match purpose {
                    Purpose::Survey => self.on_surveyed(node, Some(record), out),
                    purpose => self.on_record(node, purpose, &record, out),
                }
            }
            (Purpose::Survey, _) => self.on_surveyed(node, None, out),
            (_, reply) => this.on_unfit(refuses(&reply), out),
        }
        if !was_up && self.is_up(node) {
            // Others may get the evidence that they lacked.
            for node in &mut self.nodes {
                node.look_now(out.now);
            }
        }
        self.begin_survey(out);
    }

    pub(crate) fn on_connected(
        &mut self,
        node: NodeId,
        connection: ConnectionId,
        facts: Facts,
        out: &mut Out,
    ) {
        let this = &mut self.nodes[node.0];
        if !this.link.is_current(connection) || !this.link.on_connected(facts, out.now) {
            return;
        }
        // Whoever is at the other end now may have forgotten what the node granted.
        this.standing = Standing::Probing;
        if self.give_up_unusable(node, out) {
            return;
        }
        // Before the probe: releases need no vote, and must not wait for one.
        out.notices.push_back(Notice::Connected(node));
        self.send(node, Purpose::Probe, Request::Probe, out);
    }

    pub(crate) fn on_disconnected(
        &mut self,
        node: NodeId,
        connection: ConnectionId,
        reason: Why,
        out: &mut Out,
    ) {
        if self.nodes[node.0].link.is_current(connection) {
            self.on_lost(node, NodeState::Down { reason }, out);
        }
    }

    pub(crate) fn on_silent(&mut self, node: NodeId, connection: ConnectionId, out: &mut Out) {
        let link = &mut self.nodes[node.0].link;
        if link.is_current(connection)
            && let Some(reason) = link.on_silent(out.settings.silence_limit)
        {
            out.actions.push_back(Action::Disconnect { node });
            self.on_lost(node, NodeState::Down { reason }, out);
        }
    }

    /// Looks at the clock.
    pub(crate) fn advance(&mut self, out: &mut Out) {
        for node in self.ids() {
            self.on_due(node, out);
        }
    }

    fn on_due(&mut self, node: NodeId, out: &mut Out) {
        let limit = out.settings.silence_limit;
        let this = &mut self.nodes[node.0];
        if let Some(connection) = this.link.listen(limit, out.now) {
            let listen = Action::Listen { node, connection };
            out.actions.push_back(listen);
        }
        if this.link.may_connect(out.now) {
            return self.connect(node, out);
        }
        if this.ping_at(out).is_some_and(|at| at <= out.now) {
            self.send(node, Purpose::Probe, Request::Probe, out);
        }
        let this = &mut self.nodes[node.0];
        if this
            .suspended
            .take_if(|(_, until)| *until <= out.now)
            .is_some()
            && this.is_up()
        {
            this.announce(NodeState::Up, out);
            out.notices.push_back(Notice::Settled(node));
        }
        let this = &mut self.nodes[node.0];
        if let Standing::Unfit { until, .. } = this.standing
            && until <= out.now
        {
            this.standing = Standing::Probing;
            self.send(node, Purpose::Probe, Request::Probe, out);
        }
        self.begin_survey(out);
    }

    fn connect(&mut self, node: NodeId, out: &mut Out) {
        let connection = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let this = &mut self.nodes[node.0];
        this.link.on_connecting(connection, out.now);
        out.actions.push_back(Action::Connect { node, connection });
    }

    /// The connection is lost, or was not made. That the node is down is said if the next one cannot be made
    /// either.
    fn on_lost(&mut self, node: NodeId, state: NodeState, out: &mut Out) {
        let random = (out.env.random)();
        let this = &mut self.nodes[node.0];
        let reason: Arc<str> = state.to_string().into();
        // A server that evicts or is a twin is no better on the next connection: it is tried again after a pause.
        let is_usable = matches!(state, NodeState::Down { .. });
        let link = &mut this.link;
        let was_down = link.is_down;
        let unanswered = link.on_lost(Arc::clone(&reason), is_usable, random, out.now);
        let is_down = link.is_down;
        if let Standing::Lost(lost) = &this.standing {
            // What was proven of this loss stays true, over whatever connection the node comes back.
            this.found = lost.loss;
        }
        this.standing = Standing::Probing;
        if is_down {
            this.announce(state, out);
        } else {
            self.connect(node, out);
        }
        let verdict = Verdict::Disconnected { reason };
        for sent in unanswered {
            if let Purpose::Key(key, ask) = sent.purpose {
                let (place, verdict) = ((node, sent.request), verdict.clone());
                let notice = Notice::Reply(key, ask, place, Err(verdict));
                out.notices.push_back(notice);
            }
        }
        // Nor does what it has said count any more.
        self.on_surveyed(node, None, out);
        // Once: with 1 000 locks held, each failed attempt to connect would cost as many looks, and change nothing.
        if is_down && !was_down {
            out.notices.push_back(Notice::Settled(node));
        }
        // Those that waited for it to come to something need not any more.
        self.begin_survey(out);
    }

    /// Gives up a node that must not vote whatever it remembers. It is tried again, in case the
    /// server is mended.
    fn give_up_unusable(&mut self, node: NodeId, out: &mut Out) -> bool {
        let this = &self.nodes[node.0];
        let facts = &this.link.facts;
        // One server with two addresses would have two votes: a majority of votes could be a minority of servers.
        let twin = self.nodes.iter().find(|other| {
            let process = facts.process();
            let same = process.is_some() && other.link.facts.process() == process;
            other.id != node && other.link.is_connected() && same
        });
        let state = match (&facts.evicts, twin) {
            (Some(policy), _) if !out.settings.may_evict => NodeState::Evicts {
                policy: Arc::clone(policy),
            },
            (_, Some(twin)) => NodeState::SameServer { twin: twin.id },
            _ => return false,
        };
        out.actions.push_back(Action::Disconnect { node });
        self.on_lost(node, state, out);
        true
    }
}
