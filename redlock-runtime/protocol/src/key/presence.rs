//! Where the key is while a section holds it: nodes are watched for changes, and those that have
//! nothing of it get it.

use std::{sync::Arc, time::Duration};

use super::{claim::Claim, cx::Cx, turn::Held};
use crate::{
    action::Verdict,
    message::{Act, NodeId, Reply, Request, Vote},
    node::Nodes,
    purpose::Ask,
    rules::backoff::LONGEST_POLL,
    time::Instant,
};

/// Each process that begins or ends to share a lock changes its key, and all others are told: their reads would grow
/// with the square of their number.
const READERS_PAUSE: Duration = Duration::from_millis(200);

impl Claim {
    /// Reads the key on a node that will then tell of its changes.
    pub(super) fn watch(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        if cx.nodes.tells_changes(node) {
            self.read(node, cx);
        }
    }

    /// Reads the key on any node: one that has taken the key counts once it says so. If the node is not connected,
    /// nothing is read.
    pub(super) fn read(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        let (key, owner, mode) = (Arc::clone(cx.name), self.owner, self.mode);
        let reads = self.reads(node);
        if reads.begin() {
            let body = Request::Watch {
                key,
                owner: Some(owner),
                mode,
            };
            if !cx.tell(node, Ask::Watch(owner), body) {
                reads.end();
            }
        }
    }

    /// If a node has written the key in answer to an extension, it tells of no later change before the key is read again.
    pub(super) fn watch_again(&mut self, node: NodeId, ask: Ask, reply: &Reply, cx: &mut Cx<'_>) {
        let is_written = match (self.writing_of(ask), reply) {
            (Some(last), &Reply::Extended { remaining, .. }) => last.is_written(remaining),
            // In doubt it is read again: a read too many costs a request, a change that is not told hides a loss.
            _ => true,
        };
        let is_extension = matches!(ask, Ask::Extend(..));
        if is_extension && is_written && self.is_watched && self.may_have(node) {
            self.watch(node, cx);
        }
    }

    /// A read is over, with a reply or without.
    pub(super) fn on_watched(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        if self.reads(node).end() {
            self.watch(node, cx);
        }
    }
}

impl Held {
    /// It has been held for long enough to stand on all nodes, and is not known to.
    pub(super) fn is_under_replicated(&self, nodes: &Nodes) -> bool {
        let lacks = |node| !self.claim.is_known(node) || !nodes.is_up(node);
        self.claim.is_watched && !self.sections.is_empty() && nodes.ids().any(lacks)
    }

    /// It is known whether a node votes.
    pub(super) fn on_settled(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        if !cx.nodes.is_up(node) {
            if self.claim.is_watched {
                // If it could not be read before, it tells of no changes.
                self.claim.watch(node, cx);
            }
            self.shore_up(cx);
        } else if self.claim.is_watched {
            self.put_back(node, cx);
        }
    }

    /// A node was to set the key.
    pub(super) fn on_put_back(
        &mut self,
        node: NodeId,
        reply: Result<Reply, Verdict>,
        cx: &mut Cx<'_>,
    ) {
        match reply {
            // Writing it was no vote: the key counts once it is read there.
            Ok(Reply::PutBack) => self.claim.read(node, cx),
            // Of an attempt that fails, which releases it at once, or of a process that has died: it is tried again
            // soon, then after as long as before, and when that key has expired. Else the lock would stand on fewer
            // nodes until its next renewal.
            Ok(Reply::Held { remaining, .. }) => {
                let pause = cx.now().since(self.began);
                let pause = remaining.map_or(pause, |left| pause.min(left));
                self.look_by(cx.now().after(pause.max(LONGEST_POLL)));
            }
            _ => {}
        }
    }

    /// A node says that the key may have changed. It is read before anything is believed.
    pub(super) fn on_changed(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        match self.is_shared() {
            true => self.look_by(cx.now().after(READERS_PAUSE)),
            false => self.claim.watch(node, cx),
        }
    }

    fn look_by(&mut self, at: Instant) {
        self.look_at = Some(self.look_at.map_or(at, |before| before.min(at)));
    }

    /// Reads the key on all nodes that may have it, and sets it on the others.
    pub(super) fn look_if_due(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        if self.look_at.take_if(|at| *at <= now).is_none() {
            return;
        }
        self.claim.is_watched = true;
        for node in cx.nodes.ids() {
            if self.claim.may_have(node) {
                self.claim.watch(node, cx);
            }
        }
        self.put_back_missing(cx);
    }

    /// If a node that has the key is gone, sets the key on the nodes that were not asked for it, without
    /// waiting for the time to read it: the node may come back with nothing, and a bare majority would be
    /// none then. Not on nodes that have lost the key: a loss on that number of nodes must not be hidden.
    fn shore_up(&mut self, cx: &mut Cx<'_>) {
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
        let first = self.sections.first();
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
            self.claim.on_asked(node, request);
        }
    }
}
