//! What a majority is, and when one is out of reach.
//!
//! Both rules count against *all* configured nodes, never against those that happen to answer:
//! only then do any two quorums share a node. For even N the quorum is N/2 + 1 as well (3 of 4),
//! because two halves of an even set need not meet.

/// The number of nodes that must agree.
#[must_use]
pub const fn majority(nodes: usize) -> usize {
    // Two sets of this size share a node, and a node grants a key to one owner at a time.
    nodes / 2 + 1
}

/// True once `against` nodes have decided otherwise and the rest cannot make a majority.
#[must_use]
pub const fn out_of_reach(nodes: usize, against: usize) -> bool {
    // Nodes that have not replied count as if they would all agree.
    nodes - against < majority(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_two_majorities_share_a_node() {
        for nodes in 1..=32 {
            assert!(2 * majority(nodes) > nodes, "{nodes} nodes");
        }
    }

    #[test]
    fn a_verdict_falls_for_every_split_of_the_votes() {
        for nodes in 1..=32 {
            for against in 0..=nodes {
                let for_us = nodes - against;
                assert_ne!(for_us >= majority(nodes), out_of_reach(nodes, against));
            }
        }
    }
}
