//! What is still owed to the nodes: the release of every owner that was ever sent to them.
//!
//! A release outlives the caller, the lease and the connection. It is owed to every node that an
//! acquisition was sent to, whatever that node answered, because a grant may still be on its
//! way: on the same connection the release arrives behind it. A release that a broken connection
//! took with it is sent again on the next one, until the node has confirmed it or must have
//! forgotten the key by itself.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    action::{Action, Answer, Outcome},
    message::{LeaseId, NodeId, Owner, Reply, Request},
    quorum,
    time::Instant,
    timer::Timer,
    wire::{Purpose, Wire},
};

#[derive(Debug, Default)]
pub(super) struct Releases {
    owed: BTreeMap<Owner, Owed>,
}

#[derive(Debug)]
struct Owed {
    key: Arc<str>,
    /// Nodes that have not confirmed.
    nodes: Vec<NodeId>,
    /// The keys have expired by themselves after this.
    until: Instant,
    deleted: usize,
    /// Nodes that say the key was not ours, or were never asked to grant it.
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
    /// Releases `owner` on `nodes`: at once on those that are connected, else when they are.
    pub(super) fn release(
        &mut self,
        wire: &mut Wire,
        (key, owner): (Arc<str>, Owner),
        nodes: Vec<NodeId>,
        until: Instant,
        report: Option<Report>,
        now: Instant,
    ) {
        for &node in &nodes {
            Self::send(wire, node, &key, owner, now);
        }
        let wake = report.as_ref().map_or(until, |report| report.by);
        wire.timers.wake_by(Timer::Release(owner), wake);
        let owed = Owed {
            key,
            not_ours: wire.node_count() - nodes.len(),
            nodes,
            until,
            deleted: 0,
            report,
        };
        self.owed.insert(owner, owed);
        self.settle(wire, owner);
    }

    pub(super) fn on_reply(&mut self, wire: &mut Wire, node: NodeId, owner: Owner, reply: &Reply) {
        let Some(owed) = self.owed.get_mut(&owner) else {
            return;
        };
        match reply {
            Reply::Deleted => owed.deleted += 1,
            Reply::NotOwner => owed.not_ours += 1,
            // An error reply: the node will not do it now or later; the key TTL must.
            _ => {}
        }
        owed.nodes.retain(|&owing| owing != node);
        self.settle(wire, owner);
    }

    /// Sends again what the node still owes a confirmation for.
    pub(super) fn on_connected(&mut self, wire: &mut Wire, node: NodeId, now: Instant) {
        for (&owner, owed) in &self.owed {
            if owed.nodes.contains(&node) {
                Self::send(wire, node, &owed.key, owner, now);
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
        } else {
            wire.timers.wake_by(Timer::Release(owner), owed.until);
        }
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
        if owed.nodes.is_empty() {
            answer(wire, owed, Outcome::Unknown);
            wire.timers.cancel(Timer::Release(owner));
            self.owed.remove(&owner);
        }
    }

    fn send(wire: &mut Wire, node: NodeId, key: &Arc<str>, owner: Owner, now: Instant) {
        let body = Request::Release {
            key: Arc::clone(key),
            owner,
        };
        // Not connected: `on_connected` sends it.
        let _ = wire.send(node, Purpose::Release { owner }, body, now);
    }
}

impl Owed {
    fn can_still_be_confirmed(&self, wire: &Wire) -> bool {
        self.nodes.iter().any(|&node| wire.is_up(node))
    }
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
