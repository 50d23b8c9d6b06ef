//! What is still owed to the nodes: the release of every owner that was ever sent to them.
//!
//! A release outlives the caller, the lease and the connection. It is owed to every node that an
//! acquisition was sent to, unless that has refused, because a grant may still be on its way: on
//! the same connection the release arrives behind it. A release that a broken connection
//! took with it is sent again on the next one, until the node has confirmed it or must have
//! forgotten the key by itself.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    action::{Action, Answer, Outcome},
    message::{LeaseId, NodeId, Owner, Reply, Request, Token},
    quorum,
    time::Instant,
    timer::Timer,
    wire::{Purpose, Wire},
};

/// The pause before a node is asked again that has answered a release with an error.
const RETRY: Duration = Duration::from_millis(250);

/// What one owner may have on the nodes.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) key: Arc<str>,
    pub(super) owner: Owner,
    /// The nodes that were asked to grant and have not refused, and so may hold a key, now or once
    /// the request reaches them.
    pub(super) asked: Vec<NodeId>,
    /// The highest counter that any of them has reported.
    pub(super) seen: Token,
    /// They have reported different ones. Then the release brings all up to the highest, so that
    /// the next grants agree.
    pub(super) differ: bool,
}

impl Claim {
    /// What a node is asked to grant.
    pub(super) fn question(
        &self,
        ttl: Duration,
        proposal: Token,
        instead_of: Option<Owner>,
        waits: bool,
    ) -> Request {
        Request::Acquire {
            key: Arc::clone(&self.key),
            owner: self.owner,
            ttl,
            proposal,
            instead_of,
            waits,
        }
    }

    /// A node has granted, and its counter stands here.
    pub(super) fn hear(&mut self, counter: Token) {
        self.differ |= self.seen != Token::default() && self.seen != counter;
        self.seen = self.seen.max(counter);
    }
}

#[derive(Debug, Default)]
pub(super) struct Releases {
    owed: BTreeMap<Owner, Owed>,
}

#[derive(Debug)]
struct Owed {
    /// What is left of the claim: the nodes that have not confirmed.
    claim: Claim,
    /// Nodes to which the release was sent a second time: if it was not ours then, it may be that
    /// the first one has deleted it.
    sent_again: Vec<NodeId>,
    /// Nodes that answered with an error, and when they are asked again.
    refused: Vec<NodeId>,
    retry_at: Option<Instant>,
    /// The keys have expired by themselves after this.
    until: Instant,
    deleted: usize,
    /// Nodes that say the key was not ours, have refused it, or were never asked to grant it.
    not_ours: usize,
    report: Option<Report>,
}

/// Somebody waits to hear what became of it.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) lease: LeaseId,
    /// Then the answer is `Unknown`.
    pub(super) by: Instant,
}

impl Releases {
    /// Releases a claim: at once on the nodes that are connected, else when they are.
    pub(super) fn release(
        &mut self,
        wire: &mut Wire,
        claim: Claim,
        until: Instant,
        report: Option<Report>,
        now: Instant,
    ) {
        self.release_but(wire, claim, &[], until, report, now);
    }

    /// The same, but nothing is sent to nodes where the claim's owner is being replaced by the next
    /// one. `on_replaced` brings their word.
    pub(super) fn release_but(
        &mut self,
        wire: &mut Wire,
        claim: Claim,
        replaced: &[NodeId],
        until: Instant,
        report: Option<Report>,
        now: Instant,
    ) {
        if claim.asked.is_empty() {
            return;
        }
        for &node in claim.asked.iter().filter(|node| !replaced.contains(node)) {
            send(wire, node, &claim, now);
        }
        let owner = claim.owner;
        let wake = report.as_ref().map_or(until, |report| report.by);
        wire.timers.wake_by(Timer::Release(owner), wake);
        let owed = Owed {
            not_ours: wire.node_count() - claim.asked.len(),
            claim,
            sent_again: Vec::new(),
            refused: Vec::new(),
            retry_at: None,
            until,
            deleted: 0,
            report,
        };
        self.owed.insert(owner, owed);
        self.settle(wire, owner);
    }

    pub(super) fn on_reply(
        &mut self,
        wire: &mut Wire,
        node: NodeId,
        owner: Owner,
        reply: &Reply,
        now: Instant,
    ) {
        let Some(owed) = self.owed.get_mut(&owner) else {
            return;
        };
        if !owed.claim.asked.contains(&node) {
            return;
        }
        match reply {
            Reply::Deleted => owed.deleted += 1,
            Reply::NotOwner if !owed.sent_again.contains(&node) => owed.not_ours += 1,
            // What keeps it from releasing may pass, as a script that blocks the server does.
            Reply::Failed(_) => return owed.on_error(wire, node, now),
            _ => {}
        }
        owed.claim.asked.retain(|&owing| owing != node);
        self.settle(wire, owner);
    }

    /// A node's answer to the request that the next owner replaces this one. Where that says
    /// nothing of this one's key, it is released like any other.
    pub(super) fn on_replaced(
        &mut self,
        wire: &mut Wire,
        node: NodeId,
        owner: Owner,
        reply: &Reply,
        now: Instant,
    ) {
        let word = match reply {
            Reply::Granted { replaced: true, .. } => Reply::Deleted,
            Reply::Granted { .. } | Reply::Held { .. } => Reply::NotOwner,
            _ => {
                if let Some(owed) = self.owed.get(&owner)
                    && owed.claim.asked.contains(&node)
                {
                    send(wire, node, &owed.claim, now);
                }
                return;
            }
        };
        self.on_reply(wire, node, owner, &word, now);
    }

    /// Sends again what the node still owes a confirmation for.
    pub(super) fn on_connected(&mut self, wire: &mut Wire, node: NodeId, now: Instant) {
        for owed in self.owed.values_mut() {
            if owed.claim.asked.contains(&node) {
                owed.sent_again.push(node);
                send(wire, node, &owed.claim, now);
            }
        }
    }

    pub(super) fn on_due(&mut self, wire: &mut Wire, owner: Owner, now: Instant) {
        let Some(owed) = self.owed.get_mut(&owner) else {
            return;
        };
        if owed.report.as_ref().is_some_and(|report| now >= report.by) {
            answer(wire, owed, Outcome::Unknown);
        }
        if now >= owed.until {
            self.owed.remove(&owner);
            return;
        }
        if owed.retry_at.take_if(|at| *at <= now).is_some() {
            for node in std::mem::take(&mut owed.refused) {
                owed.sent_again.push(node);
                send(wire, node, &owed.claim, now);
            }
        }
        let report = owed.report.as_ref().map(|report| report.by);
        let wake = [report, owed.retry_at].into_iter().flatten();
        let wake = wake.fold(owed.until, Instant::min);
        wire.timers.wake_by(Timer::Release(owner), wake);
    }

    /// True once every connected node has confirmed every release.
    pub(super) fn are_confirmed(&self, wire: &Wire) -> bool {
        !self
            .owed
            .values()
            .any(|owed| owed.can_still_be_confirmed(wire))
    }

    /// The releases that a connected node has not confirmed.
    pub(super) fn unconfirmed(&self, wire: &Wire) -> usize {
        let open = |owed: &&Owed| owed.can_still_be_confirmed(wire);
        self.owed.values().filter(open).count()
    }

    fn settle(&mut self, wire: &mut Wire, owner: Owner) {
        let Some(owed) = self.owed.get_mut(&owner) else {
            return;
        };
        let nodes = wire.node_count();
        if owed.deleted >= quorum::majority(nodes) {
            answer(wire, owed, Outcome::Released);
        } else if quorum::out_of_reach(nodes, owed.not_ours) {
            answer(wire, owed, Outcome::AlreadyExpired);
        }
        if owed.claim.asked.is_empty() {
            answer(wire, owed, Outcome::Unknown);
            wire.timers.cancel(Timer::Release(owner));
            self.owed.remove(&owner);
        }
    }
}

impl Owed {
    fn can_still_be_confirmed(&self, wire: &Wire) -> bool {
        let can = |node: &NodeId| wire.is_connected(*node) && !self.refused.contains(node);
        self.claim.asked.iter().any(can)
    }

    fn on_error(&mut self, wire: &mut Wire, node: NodeId, now: Instant) {
        if !self.refused.contains(&node) {
            self.refused.push(node);
        }
        let at = *self.retry_at.get_or_insert_with(|| now.after(RETRY));
        wire.timers.wake_by(Timer::Release(self.claim.owner), at);
    }
}

fn send(wire: &mut Wire, node: NodeId, claim: &Claim, now: Instant) {
    let body = Request::Release {
        key: Arc::clone(&claim.key),
        owner: claim.owner,
        catch_up: if claim.differ {
            claim.seen
        } else {
            Token::default()
        },
    };
    let purpose = Purpose::Release { owner: claim.owner };
    // Not connected: `on_connected` sends it.
    wire.send(node, purpose, body, now);
}

/// Answers whoever waits, once.
fn answer(wire: &mut Wire, owed: &mut Owed, outcome: Outcome) {
    if let Some(report) = owed.report.take() {
        wire.actions.push_back(Action::Answer {
            lease: report.lease,
            answer: Answer::Released(outcome),
        });
    }
}
