//! What is still owed to the nodes, the release of every owner that was ever sent to them, and to
//! whoever wants to hear of it.
//!
//! A release outlives the caller, the lease and the connection. It is owed to every node that an
//! acquisition was sent to, unless that has refused, because a grant may still be on its way: on
//! the same connection the release arrives behind it. A release that a broken connection
//! took with it is sent again on the next one, until the node has confirmed it or must have
//! forgotten the key by itself.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    message::{LeaseId, NodeId, Owner, Reply, Request, RequestId, Token},
    report::{Report, Reports},
    time::Instant,
    timer::Timer,
    wire::{Purpose, Wire},
};

/// The pause before a node is asked again that has answered a release with an error.
const RETRY: Duration = Duration::from_millis(250);

/// What one owner may have on the nodes. It goes from one lease of a process to the next together
/// with the lock.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) key: Arc<str>,
    pub(super) owner: Owner,
    /// The nodes that were asked to grant and have not refused, and so may hold a key, now or once
    /// the request reaches them.
    pub(super) asked: Vec<NodeId>,
    /// Those of them that the present lease has asked.
    pub(super) asked_now: Vec<NodeId>,
    /// The last request of each, be it for the present lease or for one that comes after it.
    last_request: Vec<RequestId>,
    /// Since when each node is known to keep the key for the present lease, at the earliest.
    pub(super) kept_since: Vec<Option<Instant>>,
    /// No node was asked to keep the key for longer than this.
    ttl: Duration,
    /// The highest counter that any of them has reported.
    pub(super) seen: Token,
    /// They have reported different ones. Then the release brings all up to the highest, so that
    /// the next grants agree.
    pub(super) differ: bool,
}

impl Claim {
    /// Nobody has been asked.
    pub(super) fn new(key: Arc<str>, owner: Owner, nodes: usize) -> Self {
        Self {
            key,
            owner,
            asked: Vec::with_capacity(nodes),
            asked_now: Vec::with_capacity(nodes),
            last_request: vec![RequestId::default(); nodes],
            kept_since: vec![None; nodes],
            ttl: Duration::ZERO,
            seen: Token::default(),
            differ: false,
        }
    }

    /// What a node is asked to grant, which may hold it for this owner already if that is `handed_over`.
    pub(super) fn question(
        &mut self,
        ttl: Duration,
        proposal: Token,
        handed_over: Option<Duration>,
        waits: bool,
    ) -> Request {
        self.lives_for(ttl + handed_over.unwrap_or_default());
        Request::Acquire {
            key: Arc::clone(&self.key),
            owner: self.owner,
            ttl,
            proposal,
            handed_over,
            waits,
        }
    }

    /// The next lease of the process has it. What is true of the key on the nodes stays so; what they
    /// have done for the lease before does not concern this one.
    pub(super) fn hand_over(&mut self) {
        self.asked_now.clear();
        self.kept_since.fill(None);
        self.seen = Token::default();
        self.differ = false;
    }

    /// The claim of the lease before, for one that has asked for the lock ahead.
    pub(super) fn take_over(&mut self, before: Self) {
        before.asked.iter().for_each(|&node| self.may_be_on(node));
        for (last, before) in self.last_request.iter_mut().zip(before.last_request) {
            *last = before.max(*last);
        }
        self.lives_for(before.ttl);
    }

    /// Nodes may keep the key for so long.
    pub(super) fn lives_for(&mut self, ttl: Duration) {
        self.ttl = self.ttl.max(ttl);
    }

    /// A node may have the key, or get it once a request reaches it.
    pub(super) fn may_be_on(&mut self, node: NodeId) {
        if !self.asked.contains(&node) {
            self.asked.push(node);
        }
    }

    /// A request to grant goes to a node.
    pub(super) fn on_question(&mut self, node: NodeId, request: RequestId) {
        self.may_be_on(node);
        self.last_request[node.0] = request;
    }

    /// A node has refused: nothing of ours is there, nor will be, unless it has been asked again.
    pub(super) fn on_refused(&mut self, node: NodeId, request: RequestId) {
        if self.last_request[node.0] <= request {
            self.asked.retain(|&asked| asked != node);
            self.asked_now.retain(|&asked| asked != node);
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
    pub(super) reports: Reports,
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
}

impl Releases {
    /// A lease that has let go wants to hear by then what became of the lock.
    pub(super) fn report(&mut self, wire: &mut Wire, claim: &Claim, lease: LeaseId, by: Instant) {
        let report = Report {
            lease,
            by,
            after: wire.next_request(),
            may_have: claim.asked.clone(),
            had_it: 0,
            did_not: wire.node_count() - claim.asked.len(),
        };
        self.reports.open(claim.owner, report);
        wire.timers.wake_by(Timer::Release(claim.owner), by);
    }

    /// Releases a claim: at once on the nodes that are connected, else when they are.
    pub(super) fn release(&mut self, wire: &mut Wire, claim: Claim, now: Instant) {
        for &node in &claim.asked {
            send(wire, node, &claim, now);
        }
        let owner = claim.owner;
        let until = now.after(claim.ttl);
        wire.timers.wake_by(Timer::Release(owner), until);
        let owed = Owed {
            claim,
            sent_again: Vec::new(),
            refused: Vec::new(),
            retry_at: None,
            until,
        };
        self.owed.insert(owner, owed);
        self.settle(wire, owner);
    }

    pub(super) fn on_reply(
        &mut self,
        wire: &mut Wire,
        (node, owner): (NodeId, Owner),
        asked: RequestId,
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
            Reply::NotOwner if owed.sent_again.contains(&node) => {}
            Reply::Deleted | Reply::NotOwner => {
                let had_it = Some(*reply == Reply::Deleted);
                self.reports.on_word(wire, (node, owner), asked, had_it);
            }
            // What keeps it from releasing may pass, as a script that blocks the server does.
            Reply::Failed(_) => return owed.on_error(wire, node, now),
            _ => {}
        }
        owed.claim.asked.retain(|&owing| owing != node);
        self.settle(wire, owner);
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
        self.reports.on_due(&mut wire.actions, owner, now);
        let report_by = self.reports.by(owner);
        report_by.inspect(|&by| wire.timers.wake_by(Timer::Release(owner), by));
        let Some(owed) = self.owed.get_mut(&owner) else {
            return;
        };
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
        let wake = owed.retry_at.unwrap_or(owed.until).min(owed.until);
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
        if owed.claim.asked.is_empty() {
            self.reports.close(&mut wire.actions, owner);
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
