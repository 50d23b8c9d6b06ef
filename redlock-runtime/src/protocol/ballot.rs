//! The votes of one round.

use super::{
    action::Vote,
    message::{Fault, NodeId},
    quorum,
};

/// One vote per node, and what they add up to.
#[derive(Debug)]
pub(super) struct Ballot {
    votes: Vec<Vote>,
    ours: usize,
    refused: usize,
    failed: usize,
}

impl Ballot {
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            votes: vec![Vote::Pending; nodes],
            ours: 0,
            refused: 0,
            failed: 0,
        }
    }

    /// Counts a node's vote; its first one stands.
    pub(super) fn cast(&mut self, node: NodeId, vote: Vote) {
        let cast = &mut self.votes[node.0];
        if *cast != Vote::Pending {
            return;
        }
        match vote {
            Vote::Pending | Vote::NotAsked => return,
            Vote::Ours => self.ours += 1,
            Vote::Held { .. } | Vote::NotOwner => self.refused += 1,
            Vote::Failed(_) => self.failed += 1,
        }
        *cast = vote;
    }

    pub(super) const fn ours(&self) -> usize {
        self.ours
    }

    /// How many have not voted.
    pub(super) fn pending(&self) -> usize {
        self.votes.len() - self.ours - self.refused - self.failed
    }

    /// Gives up on the nodes that have not voted.
    pub(super) fn close(&mut self) {
        for vote in &mut self.votes {
            if *vote == Vote::Pending {
                *vote = Vote::Failed(Fault::TimedOut);
                self.failed += 1;
            }
        }
    }

    pub(super) fn is_won(&self) -> bool {
        self.ours >= quorum::majority(self.votes.len())
    }

    pub(super) fn is_out_of_reach(&self) -> bool {
        quorum::out_of_reach(self.votes.len(), self.refused + self.failed)
    }

    /// True when the nodes that gave no vote already rule out a majority.
    pub(super) fn is_starved(&self) -> bool {
        quorum::out_of_reach(self.votes.len(), self.failed)
    }

    /// True when the nodes that said no already rule out a majority.
    pub(super) fn is_refused(&self) -> bool {
        quorum::out_of_reach(self.votes.len(), self.refused)
    }

    /// How many of the refusing nodes must change their mind for a majority.
    pub(super) fn missing(&self) -> usize {
        let reachable = self.votes.len() - self.refused - self.failed;
        quorum::majority(self.votes.len()).saturating_sub(reachable)
    }

    pub(super) fn votes(&self) -> &[Vote] {
        &self.votes
    }

    pub(super) fn into_votes(self) -> Vec<Vote> {
        self.votes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMED_OUT: Vote = Vote::Failed(Fault::TimedOut);

    fn ballot(nodes: usize, votes: &[Vote]) -> Ballot {
        let mut ballot = Ballot::new(nodes);
        for (node, vote) in votes.iter().enumerate() {
            ballot.cast(NodeId(node), vote.clone());
        }
        ballot
    }

    #[test]
    fn a_node_votes_once() {
        let mut ballot = ballot(3, &[Vote::Ours]);
        ballot.cast(NodeId(0), Vote::Ours);
        assert!(!ballot.is_won());
    }

    #[test]
    fn the_verdict_does_not_wait_for_the_last_node() {
        assert!(ballot(5, &[Vote::Ours, Vote::Ours, Vote::Ours]).is_won());
        assert!(ballot(5, &[Vote::NotOwner, TIMED_OUT, Vote::NotOwner]).is_out_of_reach());
        assert!(!ballot(5, &[Vote::NotOwner, TIMED_OUT]).is_out_of_reach());
    }

    #[test]
    fn half_of_an_even_set_is_no_majority() {
        let half = ballot(4, &[Vote::Ours, Vote::Ours, TIMED_OUT, TIMED_OUT]);
        assert!(!half.is_won());
        assert!(half.is_out_of_reach());
    }

    #[test]
    fn closing_fails_those_that_have_not_voted() {
        let mut ballot = ballot(3, &[Vote::Ours]);
        ballot.close();
        assert_eq!(ballot.votes(), [Vote::Ours, TIMED_OUT, TIMED_OUT]);
        assert!(ballot.is_starved());
    }
}
