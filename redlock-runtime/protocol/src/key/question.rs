//! What a round asks the nodes, and of which of them.

use std::{ops::Range, sync::Arc, time::Duration};

use crate::{
    message::{Act, AdmissionId, BlockRequest, Mode, NodeId, Owner, Request, Ticket, Vote},
    rules::validity::LockParams,
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
    pub(super) fn body(
        &self,
        key: Arc<str>,
        (owner, mode): (Owner, Mode),
        admission: AdmissionId,
        ticket: Option<Ticket>,
    ) -> Request {
        let ttl = self.params.key_ttl();
        let (ttl, act) = match self.kind {
            // So that the sections of a turn that follow need no round of their own.
            Kind::Acquire => (ttl + self.spare, Act::Acquire(ticket)),
            Kind::Extend => {
                let (spare, note) = (self.spare, self.note.clone());
                (ttl, Act::Extend { spare, note })
            }
        };
        let vote = Vote {
            key,
            owner,
            mode,
            ttl,
            block: self.block,
            admission,
        };
        Request::Vote(vote, act)
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
