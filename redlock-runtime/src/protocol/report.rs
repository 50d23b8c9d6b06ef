//! Who has let go of a lock and waits to hear what became of it: whether a majority of nodes still
//! had its key.
//!
//! Nodes say so when the key is released, or when the lock is handed over and they grant it to the
//! next lease of the process. What they were asked before counts for nothing: they may have had the
//! key then.

use std::collections::{BTreeMap, VecDeque};

use super::{
    action::{Action, Answer, Outcome},
    message::{LeaseId, NodeId, Owner, RequestId},
    quorum,
    time::Instant,
    wire::Wire,
};

#[derive(Debug, Default)]
pub(super) struct Reports {
    /// A lock that is handed over keeps its owner, so there may be several.
    open: BTreeMap<Owner, Vec<Report>>,
}

#[derive(Debug)]
pub(super) struct Report {
    pub(super) lease: LeaseId,
    /// Then the answer is `Unknown`.
    pub(super) by: Instant,
    /// The first request of which the answer counts.
    pub(super) after: RequestId,
    /// Nodes that have not said yet whether they had the key.
    pub(super) may_have: Vec<NodeId>,
    /// How many have said that they had it.
    pub(super) had_it: usize,
    /// How many have said that they had not, or were never asked to have it.
    pub(super) did_not: usize,
}

impl Report {
    /// `None` while it is open.
    fn outcome(&self, nodes: usize) -> Option<Outcome> {
        if self.had_it >= quorum::majority(nodes) {
            Some(Outcome::Released)
        } else {
            quorum::out_of_reach(nodes, self.did_not).then_some(Outcome::AlreadyExpired)
        }
    }
}

impl Reports {
    pub(super) fn open(&mut self, owner: Owner, report: Report) {
        self.open.entry(owner).or_default().push(report);
    }

    /// When somebody must be answered at the latest.
    pub(super) fn by(&self, owner: Owner) -> Option<Instant> {
        self.open.get(&owner)?.iter().map(|report| report.by).min()
    }

    /// A node has said whether it still had the owner's key, in its answer to the request `asked`; or,
    /// where that is `None`, it may have made the key anew, so that what it says later tells nothing.
    pub(super) fn on_word(
        &mut self,
        wire: &mut Wire,
        (node, owner): (NodeId, Owner),
        asked: RequestId,
        had_it: Option<bool>,
    ) {
        let nodes = wire.node_count();
        self.retain(&mut wire.actions, owner, |report| {
            let said = report.may_have.iter().position(|&other| other == node);
            if let Some(said) = said.filter(|_| report.after <= asked) {
                report.may_have.swap_remove(said);
                report.had_it += usize::from(had_it == Some(true));
                report.did_not += usize::from(had_it == Some(false));
            }
            report.outcome(nodes)
        });
    }

    pub(super) fn on_due(&mut self, actions: &mut VecDeque<Action>, owner: Owner, now: Instant) {
        let unknown = |report: &mut Report| (now >= report.by).then_some(Outcome::Unknown);
        self.retain(actions, owner, unknown);
    }

    /// Nothing more will be heard of the owner.
    pub(super) fn close(&mut self, actions: &mut VecDeque<Action>, owner: Owner) {
        self.retain(actions, owner, |_| Some(Outcome::Unknown));
    }

    /// Answers those of which the outcome is known.
    fn retain(
        &mut self,
        actions: &mut VecDeque<Action>,
        owner: Owner,
        mut outcome: impl FnMut(&mut Report) -> Option<Outcome>,
    ) {
        let Some(open) = self.open.get_mut(&owner) else {
            return;
        };
        open.retain_mut(|report| {
            let Some(outcome) = outcome(report) else {
                return true;
            };
            actions.push_back(Action::Answer {
                lease: report.lease,
                answer: Answer::Released(outcome),
            });
            false
        });
        if open.is_empty() {
            self.open.remove(&owner);
        }
    }
}
