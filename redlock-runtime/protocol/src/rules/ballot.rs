//! The verdicts of one round, and what they add up to.

use super::quorum;
use crate::{action::Verdict, message::NodeId};

/// One verdict per node.
#[derive(Debug)]
pub(crate) struct Ballot {
    verdicts: Vec<Verdict>,
}

impl Ballot {
    pub(crate) fn new(nodes: usize) -> Self {
        let verdicts = vec![Verdict::NoAnswerYet; nodes];
        Self { verdicts }
    }

    /// Counts a node's verdict. Its first one stands. False if it had one.
    pub(crate) fn cast(&mut self, node: NodeId, verdict: Verdict) -> bool {
        let cast = &mut self.verdicts[node.0];
        // What was counted may have decided the round already, so a repeated reply must not change it.
        let is_first = cast.is_open();
        if is_first {
            *cast = verdict;
        }
        is_first
    }

    fn count(&self, is_it: impl Fn(&Verdict) -> bool) -> usize {
        self.verdicts
            .iter()
            .filter(|verdict| is_it(verdict))
            .count()
    }

    pub(crate) fn ours(&self) -> usize {
        self.count(|verdict| *verdict == Verdict::Ours)
    }

    /// How many have given no verdict.
    pub(crate) fn pending(&self) -> usize {
        self.count(Verdict::is_open)
    }

    /// Gives up on the nodes that have given no verdict.
    pub(crate) fn close(&mut self) {
        for verdict in self.verdicts.iter_mut().filter(|one| one.is_open()) {
            *verdict = Verdict::TimedOut;
        }
    }

    pub(crate) fn is_won(&self) -> bool {
        // Of all nodes, also those that fail: a majority of the rest need not meet another one.
        self.ours() >= quorum::majority(self.verdicts.len())
    }

    pub(crate) fn is_out_of_reach(&self) -> bool {
        self.missing() > 0
    }

    /// True when the nodes that said nothing already rule out a majority.
    pub(crate) fn lacks_quorum(&self) -> bool {
        quorum::out_of_reach(self.verdicts.len(), self.count(Verdict::is_failure))
    }

    /// How many of the refusing nodes must change their mind for a majority.
    pub(crate) fn missing(&self) -> usize {
        quorum::majority(self.verdicts.len()).saturating_sub(self.ours() + self.pending())
    }

    pub(crate) fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_one_verdict() {
        let mut ballot = Ballot::new(3);
        assert!(ballot.cast(NodeId(0), Verdict::Ours));
        assert!(!ballot.cast(NodeId(0), Verdict::Ours));
        assert!(!ballot.is_won());
    }
}
