//! Where the key is while a section holds it: nodes are watched for changes, and those that have
//! nothing of it get it.

use std::sync::Arc;

use super::{Ask, Claim, Cx, Front, Key, KeyId, turn::Held};
use crate::message::{AdmissionId, NodeId, Owner, Reply, Request, RequestId};

impl Key {
    pub(super) fn watch_if_due(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        let Front::Held(Held { turn, .. }) = &mut self.front else {
            return;
        };
        if turn.watch_at.take_if(|at| *at <= now).is_none() {
            return;
        }
        for node in cx.nodes.ids() {
            if turn.claim.may_have(node) {
                Self::watch(self.id, &self.name, &mut turn.claim, node, cx);
            }
        }
        self.put_back_missing(cx);
    }

    pub(super) fn on_watched(
        &mut self,
        (node, request): (NodeId, RequestId),
        owner: Owner,
        reply: &Reply,
        cx: &mut Cx<'_>,
    ) {
        let (id, name) = (self.id, Arc::clone(&self.name));
        let Some(claim) = self.claim_of(owner) else {
            return;
        };
        match reply {
            Reply::Ours => claim.on_known(node),
            Reply::Taken { .. } | Reply::Free => claim.on_absent(node, request),
            _ => {}
        }
        if claim.end_read(node) {
            Self::watch(id, &name, claim, node, cx);
        }
    }

    /// Sets the key on nodes that have nothing of it: they could not be reached, or were not asked,
    /// or have lost it.
    pub(super) fn put_back_missing(&mut self, cx: &mut Cx<'_>) {
        for node in cx.nodes.ids() {
            if let Front::Held(held) = &self.front
                && !held.turn.claim.may_have(node)
            {
                self.put_back(node, cx);
            }
        }
    }

    /// Sets the key on a node that votes, unless it is there. Gives no vote; the next extension may
    /// count it.
    pub(super) fn put_back(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        let Front::Held(Held {
            turn,
            section: Some(_),
        }) = &mut self.front
        else {
            return;
        };
        if !cx.nodes.is_up(node) {
            return;
        }
        let (owner, ttl) = (turn.claim.owner, turn.ttl);
        let body = Request::PutBack {
            key: Arc::clone(&self.name),
            owner,
            ttl,
            admission: AdmissionId(0),
        };
        let request = cx.nodes.next_request();
        let ask = (self.id, Ask::PutBack(owner));
        if cx.nodes.ask(node, ask, body, &mut cx.out).is_ok() {
            turn.claim.on_asked(node, request);
            turn.claim.raise_ttl(ttl);
        }
    }

    pub(super) fn on_put_back(
        &mut self,
        (node, request): (NodeId, RequestId),
        owner: Owner,
        reply: &Reply,
        cx: &mut Cx<'_>,
    ) {
        let is_watched = matches!(&self.front, Front::Held(held) if held.is_watched());
        let (id, name) = (self.id, Arc::clone(&self.name));
        let Some(claim) = self.claim_of(owner) else {
            return;
        };
        match reply {
            Reply::PutBack => {
                claim.on_put_back(node);
                if is_watched {
                    Self::watch(id, &name, claim, node, cx);
                }
            }
            Reply::Held { .. } => claim.on_absent(node, request),
            Reply::Refused {
                is_untouched: true, ..
            } => claim.on_refused(node, request),
            _ => {}
        }
    }

    /// Reads the key of a claim on a node that will then tell of its changes.
    pub(super) fn watch(
        id: KeyId,
        name: &Arc<str>,
        claim: &mut Claim,
        node: NodeId,
        cx: &mut Cx<'_>,
    ) {
        if cx.nodes.tells_changes(node) && claim.begin_read(node) {
            let owner = claim.owner;
            let body = Request::Watch {
                key: Arc::clone(name),
                owner: Some(owner),
            };
            cx.nodes
                .tell(node, (id, Ask::Watch(owner)), body, &mut cx.out);
        }
    }
}
