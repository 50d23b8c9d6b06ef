//! The holder's eye on its own key: so that a deletion, a flush or somebody else's grant is known
//! before the next renewal would tell.
//!
//! Nodes that can, tell of changes to a key that a client has read. The holder reads its key a
//! moment after the grant and after each renewal, and again on each such word, and counts the
//! nodes that no longer have it. The word alone counts for nothing: it also comes for changes that
//! change nothing, and may not come at all.

use std::time::Duration;

use super::{action::Vote, message::NodeId, quorum, time::Instant};

/// Most locks are held for less, and need no watching.
const WATCH_AFTER: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Watch {
    /// When to read the key on all nodes; `None` once it has been read.
    pub(super) at: Option<Instant>,
    /// What each node said last.
    votes: Vec<Vote>,
}

impl Watch {
    pub(super) fn new(nodes: usize, acquired: Instant) -> Self {
        Self {
            at: Some(acquired.after(WATCH_AFTER)),
            votes: vec![Vote::Pending; nodes],
        }
    }

    /// A renewal is a change of one's own, which ends the nodes' attention to the key.
    pub(super) fn renew(&mut self, now: Instant) {
        self.at = Some(now);
    }

    /// A node said whether the key is still ours. Silence changes nothing.
    pub(super) fn on_word(&mut self, node: NodeId, vote: Vote) {
        if matches!(vote, Vote::Ours | Vote::NotOwner) {
            self.votes[node.0] = vote;
        }
    }

    /// The nodes' words, if so many have lost the key that no majority carries it.
    pub(super) fn lost(&self) -> Option<&[Vote]> {
        let gone = |vote: &&Vote| **vote == Vote::NotOwner;
        let gone = self.votes.iter().filter(gone).count();
        quorum::out_of_reach(self.votes.len(), gone).then_some(&self.votes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_lost_when_no_majority_can_carry_its_key() {
        let mut watch = Watch::new(5, Instant::from_nanos(0));
        watch.on_word(NodeId(0), Vote::NotOwner);
        watch.on_word(NodeId(0), Vote::NotOwner);
        watch.on_word(NodeId(1), Vote::NotOwner);
        assert!(watch.lost().is_none());
        watch.on_word(NodeId(0), Vote::Ours);
        watch.on_word(NodeId(2), Vote::NotOwner);
        assert!(watch.lost().is_none());
        watch.on_word(NodeId(3), Vote::NotOwner);
        assert!(watch.lost().is_some());
    }
}
