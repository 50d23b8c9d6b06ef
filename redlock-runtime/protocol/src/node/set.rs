//! All nodes: what is sent to them and comes back, who can vote, and the surveys by which nodes
//! that have lost their memory are let in again.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use super::{
    Deferred, Node, Notice, Out, Purpose,
    admission::{self, Standing, Step, Survey},
};
use crate::{
    action::{Action, NodeState, Verdict},
    key::{Ask, KeyId},
    message::{
        AdmissionId, ConnectionId, Facts, LossId, NodeId, Process, Record, Reply, Request,
        RequestId,
    },
    rules::{
        quarantine::Readings,
        quorum,
        token::{Token, stripe},
    },
    time::Instant,
};

/// A node that owes so many answers is busy. One worker makes none so, and of a queue of them only
/// one with very short sections.
pub const BUSY_FROM: usize = 2;

/// Hedge delays that are much shorter cost more than the requests that they save.
const SHORTEST_HEDGE_DELAY: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(crate) struct Nodes {
    nodes: Vec<Node>,
    /// This client.
    process: Process,
    next_request: u64,
    next_connection: u64,
    notices: VecDeque<Notice>,
    survey: Option<Reading>,
    /// The losses of all nodes, if all were new in the last survey.
    all_new: Option<Vec<LossId>>,
}

/// A survey under way: every connected node is probed once.
#[derive(Debug)]
struct Reading {
    started: Instant,
    waiting: Vec<NodeId>,
    records: Vec<Option<Record>>,
}

impl Nodes {
    pub(crate) fn new(nodes: usize, process: Process) -> Self {
        Self {
            nodes: (0..nodes).map(|node| Node::new(NodeId(node))).collect(),
            process,
            next_request: 1,
            next_connection: 0,
            notices: VecDeque::new(),
            survey: None,
            all_new: None,
        }
    }

    pub(crate) fn connect_all(&mut self, out: &mut Out<'_>) {
        for node in self.ids() {
            self.connect(node, out);
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

    pub(crate) fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// What the next request that is sent will be called.
    pub(crate) const fn next_request(&self) -> RequestId {
        RequestId(self.next_request)
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

    /// So many nodes can be asked that a majority is possible.
    pub(crate) fn has_majority(&self, now: Instant) -> bool {
        let able = |node: &&Node| node.verdict(now).is_none();
        self.nodes.iter().filter(able).count() >= quorum::majority(self.nodes.len())
    }

    /// It tells of changes to keys that were read.
    pub(crate) fn tells_changes(&self, node: NodeId) -> bool {
        let link = &self.nodes[node.0].link;
        link.is_connected() && link.facts().tells_changes
    }

    /// How long a node usually takes to reply; nothing if that was not seen lately.
    pub(crate) fn usual_delay(&self, node: NodeId, now: Instant) -> Duration {
        let delay = self.nodes[node.0].link.usual_delay(now);
        delay.unwrap_or_default()
    }

    /// Most nodes have enough to do, so that they should not be asked what need not be asked. Not
    /// so if only some owe replies, because they are slow.
    pub(crate) fn are_busy(&self, busy_from: usize) -> bool {
        let busy = |node: &&Node| node.link.outstanding() >= busy_from;
        self.nodes.iter().filter(busy).count() >= quorum::majority(self.nodes.len())
    }

    /// How long nodes that are asked before the others may take: several times as long as a
    /// majority usually does.
    pub(crate) fn hedge_delay(&self, now: Instant) -> Duration {
        let delays = self.nodes.iter().map(|node| node.link.usual_delay(now));
        let mut delays: Vec<Duration> = delays.flatten().collect();
        delays.sort_unstable();
        let last = delays.get(quorum::majority(self.nodes.len()) - 1);
        last.map_or(SHORTEST_HEDGE_DELAY, |&delay| {
            (4 * delay).max(SHORTEST_HEDGE_DELAY)
        })
    }

    /// The nodes that can be asked, in the order in which to ask them: prompt ones first, and beyond
    /// that in an order that is the same for every client and different for each key.
    pub(crate) fn order(&self, key: &str, hedge_delay: Duration, now: Instant) -> Vec<NodeId> {
        let able = |node: &NodeId| self.verdict(*node, now).is_none();
        let mut order: Vec<NodeId> = self.in_order(key).filter(able).collect();
        order.sort_by_key(|&node| !self.is_prompt(node, hedge_delay, now));
        order
    }

    pub(crate) fn in_order(&self, key: &str) -> impl Iterator<Item = NodeId> + use<> {
        let nodes = self.nodes.len();
        let first = stripe(key) as usize % nodes;
        (first..first + nodes).map(move |node| NodeId(node % nodes))
    }

    /// It votes, and replies within `delay`, both usually and at present.
    fn is_prompt(&self, node: NodeId, delay: Duration, now: Instant) -> bool {
        let node = &self.nodes[node.0];
        let is_slow = |usual| usual > delay;
        node.is_up()
            && node.link.waiting_for(now) <= delay
            && !node.link.usual_delay(now).is_some_and(is_slow)
    }

    /// The nodes whose next due time may have changed.
    pub(crate) fn take_due(&mut self, limit: Duration) -> Vec<(NodeId, Instant)> {
        let dirty = |node: &mut Node| std::mem::take(&mut node.is_dirty);
        let mut due = Vec::new();
        for node in &mut self.nodes {
            if dirty(node)
                && let Some(at) = node.next_due(limit)
            {
                due.push((node.id, at));
            }
        }
        due
    }

    // ---- requests of keys

    /// Asks for a vote, or says at once why that cannot be. While it is being found out whether the
    /// node votes, the request is deferred.
    pub(crate) fn ask(
        &mut self,
        node: NodeId,
        (key, ask): (KeyId, Ask),
        body: Request,
        out: &mut Out<'_>,
    ) -> Result<(), Verdict> {
        if let Some(verdict) = self.verdict(node, out.now) {
            return Err(verdict);
        }
        let Standing::Up(admission) = self.nodes[node.0].standing else {
            self.nodes[node.0].defer(key, ask, body, false);
            return Ok(());
        };
        self.send(
            node,
            Purpose::Key(key, ask),
            body.under(admission),
            false,
            out,
        );
        Ok(())
    }

    /// Sends what needs no vote. False if the node is not connected.
    pub(crate) fn tell(
        &mut self,
        node: NodeId,
        (key, ask): (KeyId, Ask),
        body: Request,
        out: &mut Out<'_>,
    ) -> bool {
        let is_connected = self.is_connected(node);
        if is_connected {
            self.send(node, Purpose::Key(key, ask), body, false, out);
        }
        is_connected
    }

    /// Sends a deferred request that is still wanted.
    pub(crate) fn send_deferred(&mut self, deferred: Deferred, out: &mut Out<'_>) {
        let Deferred {
            node,
            key,
            ask,
            body,
            with_source,
        } = deferred;
        match self.nodes[node.0].standing {
            Standing::Up(admission) if self.is_connected(node) => {
                let purpose = Purpose::Key(key, ask);
                self.send(node, purpose, body.under(admission), with_source, out);
            }
            _ => self.nodes[node.0].defer(key, ask, body, with_source),
        }
    }

    /// A lock has seen by how much the node's clock has gained.
    pub(crate) fn suspend(&mut self, node: NodeId, by: Duration, out: &mut Out<'_>) {
        self.nodes[node.0].suspend(by, out);
    }

    fn send(
        &mut self,
        node: NodeId,
        purpose: Purpose,
        body: Request,
        with_source: bool,
        out: &mut Out<'_>,
    ) {
        let request = RequestId(self.next_request);
        self.next_request += 1;
        self.nodes[node.0].send(request, purpose, body, with_source, out);
    }

    // ---- events

    pub(crate) fn on_reply(
        &mut self,
        node: NodeId,
        request: RequestId,
        reply: Reply,
        out: &mut Out<'_>,
    ) {
        // A reply on a connection that was given up: its request was counted as failed.
        let Some(sent) = self.nodes[node.0].link.on_reply(request, out.now) else {
            return;
        };
        match (sent.purpose, reply) {
            (Purpose::Key(key, ask), Reply::NoScript) if !ask.needs_vote() => {
                self.send(node, Purpose::Key(key, ask), sent.body, true, out);
            }
            (Purpose::Key(key, ask), reply @ (Reply::NoScript | Reply::NotAdmitted)) => {
                // The server may be another process, or may have lost its memory: no vote counts
                // before that is known.
                let with_source = reply == Reply::NoScript;
                self.nodes[node.0].defer(key, ask, sent.body, with_source);
                self.verify(node, out);
            }
            (Purpose::Key(key, ask), reply) => self.notices.push_back(Notice::Answered {
                node,
                request,
                key,
                ask,
                reply,
            }),
            (purpose, Reply::NoScript) => self.send(node, purpose, sent.body, true, out),
            (purpose, reply) => self.on_own_reply(node, purpose, reply, out),
        }
    }

    /// A reply to a request of the admission.
    fn on_own_reply(&mut self, node: NodeId, purpose: Purpose, reply: Reply, out: &mut Out<'_>) {
        let this = &mut self.nodes[node.0];
        match (purpose, reply) {
            (Purpose::Identify, Reply::Identity { server }) => {
                this.link.on_identity(server);
                if !self.give_up_unusable(node, out) {
                    self.send(node, Purpose::Probe, Request::Probe, false, out);
                }
            }
            (Purpose::Admit, Reply::Admitted { admission }) => {
                this.on_admitted(admission, &mut self.notices, out);
                self.look_at_all(out.now);
            }
            (Purpose::Survey, Reply::Record(record)) => self.on_surveyed(node, Some(record), out),
            (purpose, Reply::Record(record)) => self.on_record(node, purpose, &record, out),
            (Purpose::Survey, _) => self.on_surveyed(node, None, out),
            (_, reply) => {
                let message = match reply {
                    Reply::Refused { message, .. } => message,
                    Reply::Garbled { answer } => format!("unexpected reply {answer}").into(),
                    other => format!("unexpected reply {other:?}").into(),
                };
                this.on_unfit(NodeState::Refuses { message }, &mut self.notices, out);
            }
        }
        self.begin_survey(out);
    }

    fn on_record(&mut self, node: NodeId, purpose: Purpose, record: &Record, out: &mut Out<'_>) {
        let this = &mut self.nodes[node.0];
        if let Some(evidence) = this.durable(record)
            && purpose == Purpose::Probe
        {
            return self.admit(node, evidence, Token::default(), out);
        }
        this.on_record(record, &mut self.notices, out);
        if purpose == Purpose::Admit
            && let Standing::Lost(lost) = &mut this.standing
        {
            lost.on_too_early(out.now);
            self.quarantine(node, out);
        } else if purpose == Purpose::Report
            && let Standing::Lost(lost) = &mut this.standing
        {
            lost.survey_at = Some(out.now);
        }
    }

    pub(crate) fn on_connected(
        &mut self,
        node: NodeId,
        connection: ConnectionId,
        facts: Facts,
        out: &mut Out<'_>,
    ) {
        let this = &mut self.nodes[node.0];
        if !this.link.is_current(connection) || !this.link.on_connected(facts, out.now) {
            return;
        }
        this.is_dirty = true;
        this.standing = Standing::Probing;
        if self.give_up_unusable(node, out) {
            return;
        }
        self.notices.push_back(Notice::Connected(node));
        self.send(node, Purpose::Probe, Request::Probe, false, out);
    }

    pub(crate) fn on_disconnected(
        &mut self,
        node: NodeId,
        connection: ConnectionId,
        reason: &Arc<str>,
        out: &mut Out<'_>,
    ) {
        if self.nodes[node.0].link.is_current(connection) {
            let reason = Arc::clone(reason);
            self.on_down(node, NodeState::Down { reason }, out);
        }
    }

    /// All keys of the node may be gone, and what the library keeps there too.
    pub(crate) fn on_flushed(&mut self, node: NodeId, out: &mut Out<'_>) {
        if self.nodes[node.0].link.is_connected() {
            self.verify(node, out);
        }
    }

    pub(crate) fn on_due(&mut self, node: NodeId, out: &mut Out<'_>) {
        let limit = out.settings.silence_limit;
        let this = &mut self.nodes[node.0];
        this.is_dirty = true;
        if let Some(reason) = this.link.overdue(limit, out.now) {
            out.actions.push_back(Action::Disconnect { node });
            return self.on_down(node, NodeState::Down { reason }, out);
        }
        if this.link.may_connect(out.now) {
            return self.connect(node, out);
        }
        if this
            .suspended
            .take_if(|(_, until)| *until <= out.now)
            .is_some()
            && this.is_up()
        {
            this.announce(NodeState::Up, out);
            self.notices.push_back(Notice::Admitted(node));
        }
        let this = &mut self.nodes[node.0];
        if let Standing::Unfit { until, .. } = this.standing
            && until <= out.now
            && this.link.is_connected()
        {
            this.standing = Standing::Probing;
            self.send(node, Purpose::Probe, Request::Probe, false, out);
        }
        self.begin_survey(out);
    }

    fn connect(&mut self, node: NodeId, out: &mut Out<'_>) {
        let connection = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let this = &mut self.nodes[node.0];
        this.link.on_connecting(connection, out.now);
        this.is_dirty = true;
        out.actions.push_back(Action::Connect { node, connection });
    }

    fn on_down(&mut self, node: NodeId, state: NodeState, out: &mut Out<'_>) {
        let random = (out.env.random)();
        let this = &mut self.nodes[node.0];
        let reason: Arc<str> = match &state {
            NodeState::Down { reason } => Arc::clone(reason),
            other => other.to_string().into(),
        };
        let unanswered = this.link.on_down(Arc::clone(&reason), random, out.now);
        this.is_dirty = true;
        this.standing = Standing::Probing;
        this.announce(state, out);
        let verdict = Verdict::Disconnected { reason };
        for sent in unanswered {
            match sent.purpose {
                Purpose::Key(key, ask) => self.notices.push_back(Notice::Unanswered {
                    node,
                    key,
                    ask,
                    verdict: verdict.clone(),
                }),
                Purpose::Survey => self.on_surveyed(node, None, out),
                _ => {}
            }
        }
        let this = &mut self.nodes[node.0];
        this.fail_deferred(&verdict, &mut self.notices);
        // Those that waited for it to come to something need not any more.
        self.begin_survey(out);
    }

    /// Gives up a node that must not vote whatever it remembers. It is tried again, in case the
    /// server is mended.
    fn give_up_unusable(&mut self, node: NodeId, out: &mut Out<'_>) -> bool {
        let this = &self.nodes[node.0];
        let facts = this.link.facts();
        let twin = self.nodes.iter().find(|other| {
            let same = facts.server.is_some() && other.link.facts().server == facts.server;
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
        self.on_down(node, state, out);
        true
    }

    // ---- admission

    /// Asks anew who it is and what it remembers.
    fn verify(&mut self, node: NodeId, out: &mut Out<'_>) {
        let this = &mut self.nodes[node.0];
        if matches!(this.standing, Standing::Up(_)) {
            this.standing = Standing::Probing;
            this.is_dirty = true;
            self.send(node, Purpose::Identify, Request::Identify, false, out);
        }
    }

    /// A node votes again, so that others may get the evidence that they lacked.
    fn look_at_all(&mut self, now: Instant) {
        for node in &mut self.nodes {
            if let Standing::Lost(lost) = &mut node.standing
                && lost.survey_at.is_some()
            {
                lost.survey_at = Some(now);
                node.is_dirty = true;
            }
        }
    }

    /// Reads the records of all nodes, if a node that has lost its memory needs them, and no node
    /// is about to come to something.
    fn begin_survey(&mut self, out: &mut Out<'_>) {
        let wanted = self.nodes.iter().any(|node| node.wants_survey(out.now));
        if self.survey.is_some() || !wanted || self.nodes.iter().any(Node::is_settling) {
            return;
        }
        let waiting: Vec<NodeId> = self.ids().filter(|&node| self.is_connected(node)).collect();
        for &node in &waiting {
            self.send(node, Purpose::Survey, Request::Probe, false, out);
        }
        self.survey = Some(Reading {
            started: out.now,
            waiting,
            records: vec![None; self.nodes.len()],
        });
    }

    fn on_surveyed(&mut self, node: NodeId, record: Option<Record>, out: &mut Out<'_>) {
        let Some(survey) = &mut self.survey else {
            return;
        };
        survey.waiting.retain(|&waiting| waiting != node);
        survey.records[node.0] = record;
        if survey.waiting.is_empty()
            && let Some(survey) = self.survey.take()
        {
            self.on_survey(&survey, out);
        }
    }

    fn on_survey(&mut self, reading: &Reading, out: &mut Out<'_>) {
        for (node, record) in self.nodes.iter_mut().zip(&reading.records) {
            if let Some(record) = record {
                node.highest = node.highest.max(record.top);
                if !matches!(node.standing, Standing::Up(_)) {
                    node.on_record(record, &mut self.notices, out);
                } else if !admission::is_valid(record, node.link.facts()) {
                    node.standing = Standing::Probing;
                    node.on_record(record, &mut self.notices, out);
                }
            }
        }
        let all_new = all_new(&reading.records);
        let is_first_start = all_new.is_some() && all_new == self.all_new;
        self.all_new = all_new;
        for node in self.ids() {
            let survey = self.survey_for(node, reading, is_first_start);
            let step = self.nodes[node.0].on_survey(&survey, out);
            match step {
                Some(Step::Report { beside_marker }) => {
                    self.report(node, beside_marker, reading, out)
                }
                Some(Step::Admit { evidence, floor }) => self.admit(node, evidence, floor, out),
                Some(Step::Wait) if self.all_new.is_some() && !is_first_start => {
                    // A second survey tells whether this is the first start of all.
                    if let Standing::Lost(lost) = &mut self.nodes[node.0].standing {
                        lost.survey_at = Some(out.now);
                    }
                }
                Some(Step::Wait) => self.quarantine(node, out),
                None => {}
            }
        }
        self.begin_survey(out);
    }

    fn survey_for(&self, node: NodeId, reading: &Reading, is_first_start: bool) -> Survey {
        let mut others = Readings::new(self.nodes.len());
        let mut beside_marker = false;
        for (other, record) in self.nodes.iter().zip(&reading.records) {
            if let Some(record) = record.as_ref().filter(|_| other.id != node) {
                beside_marker |= record.marker.is_some();
                if admission::is_valid(record, other.link.facts()) {
                    others.add(record);
                }
            }
        }
        Survey {
            started: reading.started,
            others,
            beside_marker,
            is_first_start,
        }
    }

    fn report(&mut self, node: NodeId, beside_marker: bool, reading: &Reading, out: &mut Out<'_>) {
        let ours = out.settings.max_ttl;
        let records = reading.records.iter().flatten();
        if let Some(theirs) = records
            .filter_map(|record| record.max_ttl)
            .find(|&theirs| theirs != ours)
        {
            // Nothing is written that would lock out those who use the other nodes.
            let state = NodeState::OtherMaxLease { theirs, ours };
            return self.nodes[node.0].on_unfit(state, &mut self.notices, out);
        }
        let body = Request::ReportLoss {
            server: self.nodes[node.0].link.facts().server.clone(),
            loss: LossId((out.env.random)() as u64),
            beside_marker,
            max_ttl: ours,
        };
        self.send(node, Purpose::Report, body, false, out);
    }

    fn admit(
        &mut self,
        node: NodeId,
        evidence: crate::message::Evidence,
        floor: Token,
        out: &mut Out<'_>,
    ) {
        let facts = self.nodes[node.0].link.facts();
        let body = Request::Admit {
            server: facts.server.clone(),
            evidence,
            admission: AdmissionId((out.env.random)() as u64),
            floor,
            is_durable: facts.is_durable,
            max_ttl: out.settings.max_ttl,
        };
        self.send(node, Purpose::Admit, body, false, out);
    }

    fn quarantine(&mut self, node: NodeId, out: &mut Out<'_>) {
        self.nodes[node.0].on_quarantined(&mut self.notices, out);
    }
}

/// The losses of all nodes, if all of them are new, and none was found beside a node that was not.
fn all_new(records: &[Option<Record>]) -> Option<Vec<LossId>> {
    let loss = |record: &Option<Record>| {
        let record = record.as_ref().filter(|record| record.marker.is_none())?;
        let loss = record.loss.filter(|loss| !loss.beside_marker)?;
        Some(loss.id)
    };
    records.iter().map(loss).collect()
}
