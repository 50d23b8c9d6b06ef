//! Where the key is while a section holds it: nodes are watched for changes, and those that have
//! nothing of it get it.

use std::sync::Arc;

use super::{claim::Claim, cx::Cx, turn::Held};
use crate::{
    message::{Act, NodeId, Reply, Request, Vote},
    node::Nodes,
    purpose::{Ask, RoundId},
    time::Instant,
};

impl Claim {
    /// Reads the key on a node that will then tell of its changes.
    pub(super) fn watch(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        if cx.nodes.tells_changes(node) {
            self.read(node, cx);
        }
    }

    /// Reads the key on any node: one that has taken the key counts once it says so.
    pub(super) fn read(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        let owner = (self.owner, self.mode);
        self.reads(node).read(node, owner, cx);
    }

    /// A read is over, with a reply or without.
    pub(super) fn on_watched(&mut self, node: NodeId, has_failed: bool, cx: &mut Cx<'_>) {
        let reads = self.reads(node);
        if reads.end() {
            self.watch(node, cx);
        } else {
            reads.has_failed = has_failed;
        }
    }
}

impl Held {
    /// It has been held for long enough to stand on all nodes, and is not known to.
    pub(super) fn is_under_replicated(&self, nodes: &Nodes) -> bool {
        let lacks = |node| !self.claim.is_known(node) || !nodes.is_up(node);
        self.is_watched() && !self.sections.is_empty() && nodes.ids().any(lacks)
    }

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

    /// It is known whether a node votes.
    pub(super) fn on_settled(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        // The last read failed, so the node reports no changes: now it may succeed.
        if self.claim.reads(node).has_failed {
            self.claim.watch(node, cx);
        }
        if !cx.nodes.is_up(node) {
            self.shore_up(cx);
        } else if self.is_watched() {
            self.put_back(node, cx);
        }
    }

    /// When to try a node again that had another owner's key: of an attempt that fails, or of a process that has
    /// died. Else the lock would stand on fewer nodes until its next renewal.
    pub(super) fn put_back_at(&self) -> Option<Instant> {
        let is_open = self.is_watched() && !self.sections.is_empty();
        is_open
            .then(|| self.claim.try_again_at(self.began))
            .flatten()
    }

    pub(super) fn watch_if_due(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        if self.watch_at.take_if(|at| *at <= now).is_some() {
            for node in cx.nodes.ids() {
                if self.claim.may_have(node) {
                    self.claim.watch(node, cx);
                }
            }
            self.put_back_missing(cx);
        }
        // Behind it, because nodes are tried again while the key is watched.
        if self.put_back_at().is_some_and(|at| at <= now) {
            for node in cx.nodes.ids() {
                if self.claim.tries_again(node, self.began, now) {
                    self.put_back(node, cx);
                }
            }
        }
    }

    /// If a node that has the key is gone, sets the key on the nodes that were not asked for it, without
    /// waiting for the time to read it: the node may come back with nothing, and a bare majority would be
    /// none then. Not on nodes that have lost the key: a loss on that number of nodes must not be hidden.
    pub(super) fn shore_up(&mut self, cx: &mut Cx<'_>) {
        let is_gone = |node| self.claim.is_known(node) && !cx.nodes.is_up(node);
        if cx.nodes.ids().any(is_gone) {
            for node in cx.nodes.ids() {
                // One that was asked has lost the key since, or is about to confirm it.
                if !self.claim.was_asked(node) {
                    self.put_back(node, cx);
                }
            }
        }
    }

    /// Sets the key on nodes that have nothing of it: they could not be reached, or were not asked,
    /// or have lost it.
    pub(super) fn put_back_missing(&mut self, cx: &mut Cx<'_>) {
        for node in cx.nodes.ids() {
            if !self.claim.may_have(node) {
                self.put_back(node, cx);
            }
        }
    }

    /// Sets the key on a node that votes, unless it is there. Gives no vote.
    pub(super) fn put_back(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        // Without a section, nobody needs the key there.
        let first = self.sections.iter().next();
        let Some(section) = first.filter(|_| cx.nodes.is_up(node)) else {
            return;
        };
        let limit = section.params.round_timeout();
        let (owner, mode) = (self.claim.owner, self.claim.mode);
        let (key, ttl) = (Arc::clone(cx.name), self.ttl.into());
        let body = |admission| {
            let vote = Vote {
                key,
                owner,
                mode,
                ttl,
                block: None,
                admission,
            };
            Request::Vote(vote, Act::PutBack)
        };
        if let Ok(Some(request)) = cx.ask(node, Ask::PutBack(owner), limit, body) {
            self.claim.on_asked(node, request, ttl);
        }
    }
}
