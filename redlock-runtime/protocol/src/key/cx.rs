//! What a key acts with.

use std::{sync::Arc, time::Duration};

use crate::{
    action::{Answer, Verdict},
    message::{AdmissionId, NodeId, Request, RequestId, SectionId},
    node::{Nodes, Out},
    purpose::{Ask, KeyId, RoundId},
    time::Instant,
};

pub(crate) struct Cx<'a> {
    pub(crate) key: KeyId,
    pub(crate) name: &'a Arc<str>,
    pub(crate) nodes: &'a mut Nodes,
    pub(crate) out: &'a mut Out,
}

impl Cx<'_> {
    pub(crate) const fn now(&self) -> Instant {
        self.out.now
    }

    pub(super) fn random(&mut self) -> u128 {
        (self.out.env.random)()
    }

    pub(super) fn wall_micros(&mut self) -> u64 {
        (self.out.env.wall_micros)()
    }

    pub(super) const fn new_round(&mut self) -> RoundId {
        self.out.last_round.0 += 1;
        self.out.last_round
    }

    /// Asks for a vote, or says at once why that cannot be: see [`Nodes::ask`].
    pub(super) fn ask(
        &mut self,
        node: NodeId,
        ask: Ask,
        limit: Duration,
        body: impl FnOnce(AdmissionId) -> Request,
    ) -> Result<Option<RequestId>, Verdict> {
        let ask = (self.key, ask);
        self.nodes.ask(node, ask, limit, body, self.out)
    }

    /// Sends what needs no vote. False if the node is not connected.
    pub(super) fn tell(&mut self, node: NodeId, ask: Ask, body: Request) -> bool {
        self.nodes.tell(node, (self.key, ask), body, self.out)
    }

    pub(super) fn answer(&mut self, section: SectionId, answer: Answer) {
        self.out.answer(section, answer);
    }
}
