//! How a round asks the nodes, and hears their replies.

use std::{sync::Arc, time::Duration};

use super::{
    claim::Claim,
    cx::Cx,
    question::{Fanout, Kind, Question},
    round::Round,
};
use crate::{
    action::Verdict,
    message::{NodeId, Reply},
    purpose::Ask,
    time::Instant,
};

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
        claim.on_round(&round);
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
            Ok(Some(request)) if matches!(ask, Ask::Acquire(..)) => claim.on_asked(node, request),
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
