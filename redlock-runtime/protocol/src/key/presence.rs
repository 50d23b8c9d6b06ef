//! Where the key is while a section holds it: nodes are watched for changes, and those that have
//! nothing of it get it.

use std::{sync::Arc, time::Duration};

use super::{
    Ask, Claim, Cx,
    turn::{Held, WATCH_AFTER},
};
use crate::{
    ask::RoundId,
    message::{NodeId, Reply, Request},
};

/// How long nodes get at least to take a key before it is read on all.
const SHORTEST_SPREAD: Duration = Duration::from_millis(1);

impl Claim {
    /// Reads the key on a node that will then tell of its changes.
    pub(super) fn watch(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        if cx.nodes.tells_changes(node) {
            self.read(node, cx);
        }
    }

    fn read(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        if !self.reads(node).begin() {
            return;
        }
        let body = Request::Watch {
            key: Arc::clone(&cx.name),
            owner: Some(self.owner),
        };
        cx.tell(node, Ask::Watch(self.owner), body);
    }

    /// A read is over, with a reply or without.
    pub(super) fn on_watched(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        if self.reads(node).end() {
            self.watch(node, cx);
        }
    }
}

impl Held {
    pub(super) const fn is_watched(&self) -> bool {
        self.watch_at.is_none()
    }

    /// A node has replied to an extension. If it has written the key, it tells of no later change
    /// before the key is read again.
    pub(super) fn on_extension_reply(
        &mut self,
        (node, round): (NodeId, RoundId),
        reply: &Reply,
        cx: &mut Cx<'_>,
    ) {
        let has_written = self.claim.may_have_written(round, reply);
        if self.is_watched() && has_written && self.claim.may_have(node) {
            self.claim.watch(node, cx);
        }
    }

    /// First sets the key on nodes that were not asked for it, and reads it on all once they have replied:
    /// what the others say then makes those count.
    pub(super) fn watch_if_due(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        if self.watch_at.take_if(|at| *at <= now).is_none() {
            return;
        }
        let is_spread = std::mem::replace(&mut self.is_spread, true);
        if self.put_back_missing(cx) && !is_spread {
            let round = (2 * self.took).clamp(SHORTEST_SPREAD, WATCH_AFTER);
            self.watch_at = Some(now.after(round));
            return;
        }
        self.read_all(cx);
    }

    /// Also on nodes that tell of no change, if others are to count by what all say.
    fn read_all(&mut self, cx: &mut Cx<'_>) {
        let all = self.claim.needs_those_that_join();
        for node in cx.nodes.ids() {
            let tells = cx.nodes.tells_changes(node) || all && cx.nodes.is_connected(node);
            if tells && self.claim.may_have(node) {
                self.claim.read(node, cx);
            }
        }
    }

    /// A node has taken the key.
    pub(super) fn on_put_back(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        self.claim.on_joined(node, cx.nodes.next_request());
        if !self.is_watched() {
            return;
        }
        if self.claim.needs_those_that_join() {
            self.read_all(cx);
        } else {
            self.claim.watch(node, cx);
        }
    }

    /// Sets the key on nodes that have nothing of it: they could not be reached, or were not asked,
    /// or have lost it. True if there was one.
    pub(super) fn put_back_missing(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut is_put_back = false;
        for node in cx.nodes.ids() {
            if !self.claim.may_have(node) {
                is_put_back |= self.put_back(node, cx);
            }
        }
        is_put_back
    }

    /// Sets the key on a node that votes, unless it is there. Gives no vote. False if that cannot be asked
    /// for.
    pub(super) fn put_back(&mut self, node: NodeId, cx: &mut Cx<'_>) -> bool {
        if self.sections.is_empty() || !cx.nodes.is_up(node) {
            return false;
        }
        let (owner, mode) = (self.claim.owner, self.claim.mode);
        let (key, ttl) = (Arc::clone(&cx.name), self.ttl);
        let body = |admission| Request::PutBack {
            key,
            owner,
            mode,
            ttl,
            admission,
        };
        let Ok(Some(request)) = cx.ask(node, Ask::PutBack(owner), body) else {
            return false;
        };
        self.claim.on_asked(node, request, ttl);
        true
    }
}
