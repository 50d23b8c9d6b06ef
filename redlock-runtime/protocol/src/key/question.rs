//! What a round asks the nodes, and of which of them.

use std::{ops::Range, sync::Arc, time::Duration};

use super::{Ask, Claim, Cx, round::Round};
use crate::{
    action::Verdict,
    message::{AdmissionId, BlockRequest, Mode, NodeId, Owner, Reply, Request, Ticket},
    rules::validity::LockParams,
    time::Instant,
};

/// An acquisition or an extension.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) kind: Kind,
    pub(super) params: Arc<LockParams>,
    /// How much longer than the key TTL of `params` the nodes keep the key if they write it.
    pub(super) spare: Duration,
    pub(super) block: Option<BlockRequest>,
    /// The nodes did not agree on a block when they were asked before, or on an owner.
    pub(super) is_repeated: bool,
    /// The node that keeps the queue.
    pub(super) leader: Option<NodeId>,
    /// What it is told of who waits.
    pub(super) ticket: Option<Ticket>,
    /// What the nodes keep beside the key.
    pub(super) note: Option<Arc<str>>,
}

impl Question {
    fn body(
        &self,
        key: Arc<str>,
        (owner, mode): (Owner, Mode),
        admission: AdmissionId,
        ticket: Option<Ticket>,
    ) -> Request {
        let (ttl, spare) = (self.params.key_ttl(), self.spare);
        match (self.kind, self.block) {
            (Kind::Acquire, Some(block)) => Request::Acquire {
                key,
                owner,
                mode,
                // So that the sections of a turn that follow need no round of their own.
                ttl: ttl + spare,
                block,
                admission,
                ticket,
            },
            (_, block) => Request::Extend {
                key,
                owner,
                mode,
                ttl,
                spare,
                block,
                admission,
                note: self.note.clone(),
            },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Acquire,
    Extend,
}

/// Which nodes are asked when: the first `reached` of `order` have been asked. The others are asked too if
/// those cannot or do not decide it.
#[derive(Debug)]
pub(super) struct Fanout {
    pub(super) order: Vec<NodeId>,
    pub(super) reached: usize,
    /// For how long only a majority of the nodes is asked.
    pub(super) majority_delay: Duration,
    /// For how long only one node is asked, and for how long nodes that do not reply are waited for.
    pub(super) hedge_delay: Duration,
}

impl Fanout {
    /// No node has been asked.
    pub(super) const fn new(order: Vec<NodeId>, hedge_delay: Duration) -> Self {
        Self {
            order,
            reached: 0,
            majority_delay: hedge_delay,
            hedge_delay,
        }
    }

    /// The places of the nodes to ask next, so that `count` have been asked, or all there are.
    pub(super) fn reach(&mut self, count: usize) -> Range<usize> {
        // Never fewer than before: who was asked stays asked.
        let count = count.min(self.order.len()).max(self.reached);
        let before = std::mem::replace(&mut self.reached, count);
        before..count
    }
}

impl Round {
    /// A round of which the nodes without a vote are known already.
    pub(super) fn open(
        question: Question,
        fanout: Fanout,
        closes_at: Instant,
        cx: &mut Cx<'_>,
    ) -> Self {
        let started = cx.now();
        let times = (started, closes_at);
        let mut round = Self::new(cx.new_round(), cx.nodes.count(), question, fanout, times);
        for node in cx.nodes.ids() {
            if let Some(verdict) = cx.nodes.verdict(node, started) {
                round.on_verdict(node, verdict, started);
            }
        }
        round
    }

    /// Asks all nodes that may have the keys of a claim to let them live for longer.
    pub(super) fn extend(
        question: Question,
        claim: &mut Claim,
        closes_at: Instant,
        cx: &mut Cx<'_>,
    ) -> Self {
        let now = cx.now();
        let nodes = cx.nodes.ids();
        let mut order = Vec::with_capacity(cx.nodes.count());
        order.extend(nodes.filter(|&node| claim.may_have(node)));
        let all = order.len();
        // So that time is left for another round.
        let hedge_delay = cx.nodes.hedge_delay().min(closes_at.since(now) / 4);
        let fanout = Fanout::new(order, hedge_delay);
        let mut round = Self::open(question, fanout, closes_at, cx);
        // An extension never makes a key (promise 5), so what these nodes would reply is known.
        for node in cx.nodes.ids().filter(|&node| !claim.may_have(node)) {
            round.on_verdict(node, Verdict::NoLongerOurs, now);
        }
        // Before the nodes are asked: their replies are measured against this round.
        claim.on_extending(&round);
        round.ask(all, claim, cx);
        round
    }

    /// Asks more nodes, so that `count` have been asked.
    pub(super) fn ask(&mut self, count: usize, claim: &mut Claim, cx: &mut Cx<'_>) {
        self.asked_at = cx.now();
        for place in self.fanout.reach(count) {
            self.ask_node(self.fanout.order[place], claim, cx);
        }
    }

    /// Asks one node: now, or once it is known whether it votes.
    fn ask_node(&mut self, node: NodeId, claim: &mut Claim, cx: &mut Cx<'_>) {
        let (key, owner, mode) = (Arc::clone(cx.name), claim.owner, claim.mode);
        let ask = match self.question.kind {
            Kind::Acquire => Ask::Acquire(self.id, owner),
            Kind::Extend => Ask::Extend(self.id, owner),
        };
        // Only the leader keeps a queue; elsewhere it would be a second, other order.
        let ticket = self.question.ticket.filter(|_| self.is_leader(node));
        let body = |admission| self.question.body(key, (owner, mode), admission, ticket);
        let limit = self.question.params.round_timeout();
        match cx.ask(node, ask, limit, body) {
            Err(verdict) => {
                self.on_verdict(node, verdict, cx.now());
            }
            // It is being probed: a round trip is better than a lost vote.
            Ok(None) => self.unsent.push(node),
            Ok(Some(request)) if matches!(ask, Ask::Acquire(..)) => {
                let ttl = self.question.params.key_ttl() + self.question.spare;
                claim.on_acquire(node, request, ttl, cx.now());
            }
            Ok(Some(_)) => {}
        }
    }

    /// It is known whether the node votes: asks it if it was to be asked.
    pub(super) fn on_settled(&mut self, node: NodeId, claim: &mut Claim, cx: &mut Cx<'_>) {
        let place = self.unsent.iter().position(|&unsent| unsent == node);
        if let Some(place) = place {
            self.unsent.swap_remove(place);
            self.ask_node(node, claim, cx);
        }
    }

    /// Counts what a node has said, or asks it again if it has done nothing, because it has another
    /// memory than was thought.
    pub(super) fn on_reply(
        &mut self,
        node: NodeId,
        reply: Result<Reply, Verdict>,
        lead: Option<Duration>,
        claim: &mut Claim,
        cx: &mut Cx<'_>,
    ) {
        match reply {
            // Nothing was done, so the node is asked again under the admission that it has now.
            Ok(Reply::NotAdmitted) => self.ask_node(node, claim, cx),
            Ok(reply) => self.on_vote(node, reply, lead, cx.now()),
            Err(verdict) => {
                self.on_verdict(node, verdict, cx.now());
            }
        }
    }
}
