//! What the nodes report to one round: do they agree on a block, and if not, what to propose?

use super::{
    quorum,
    token::{HEADROOM, HIGHEST_PULL, SOUND_LEAD, Token},
};

/// The first numbers of the blocks that nodes report to one round, of each node one.
#[derive(Debug, Default)]
pub struct Numbers {
    heard: Vec<Token>,
}

impl Numbers {
    /// Takes in what a node reports, the first time that it replies.
    pub fn hear(&mut self, first: Token) {
        self.heard.push(first);
    }

    /// The number that a majority of `nodes` reports.
    #[must_use]
    pub fn agreed(&self, nodes: usize) -> Option<Token> {
        let reports = |token| self.heard.iter().filter(|heard| **heard == token).count();
        let mut tokens = self.heard.iter().copied();
        tokens.find(|&token| reports(token) >= quorum::majority(nodes))
    }

    /// True if `pending` further reports can still make a majority of `nodes` agree.
    #[must_use]
    pub fn can_agree(&self, nodes: usize, pending: usize) -> bool {
        let reports = |token| self.heard.iter().filter(|heard| **heard == token).count();
        let most = self.heard.iter().map(|&token| reports(token)).max();
        most.unwrap_or_default() + pending >= quorum::majority(nodes)
    }

    /// What to be above when they differ: the numbers of a majority, if `pending` nodes that
    /// have not replied yet are among the lower ones. Not all of them: one node that is far
    /// ahead is outvoted, and does not pull the others along. Where too few others are there to outvote it, it
    /// does, but not so far that their numbers would come to an end.
    #[must_use]
    pub fn reached(&self, nodes: usize, pending: usize, wall_micros: u64) -> Token {
        let mut tokens = self.heard.clone();
        tokens.sort_unstable();
        // Nodes that have not replied count as lower ones, so fewer of those that have are needed.
        let needed = quorum::majority(nodes).saturating_sub(pending).max(1);
        let among = tokens.get(needed - 1).or_else(|| tokens.last());
        // A poisoned counter must leave numbers for the time to come: see the page of `rules::token`.
        let most = HIGHEST_PULL.max(Token(wall_micros.saturating_add(SOUND_LEAD)));
        let reached = among.copied().unwrap_or_default();
        // What was pulled there counts on, and must not part from the others for it.
        if reached.0 > most.0.saturating_add(HEADROOM) {
            most
        } else {
            reached
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(counters: &[u64]) -> Numbers {
        let mut numbers = Numbers::default();
        for counter in counters {
            numbers.hear(Token(*counter));
        }
        numbers
    }

    #[test]
    fn what_is_reached_goes_by_a_majority_and_not_by_the_node_that_is_far_ahead() {
        let poisoned = numbers(&[3, 1 << 51, 5, 4]);
        assert_eq!(poisoned.reached(5, 0, 0), Token(5));
        let few = numbers(&[3, 9]);
        assert_eq!(few.reached(5, 0, 0), Token(9));
        let beside_poison = |wall| numbers(&[3, Token::LARGEST.0]).reached(3, 0, wall);
        assert_eq!(beside_poison(0), HIGHEST_PULL);
        let later = HIGHEST_PULL.0 + 1;
        assert_eq!(beside_poison(later), Token(later + SOUND_LEAD));
        let was_pulled = Token(HIGHEST_PULL.0 + 1_000);
        assert_eq!(numbers(&[3, was_pulled.0]).reached(3, 0, 0), was_pulled);
    }
}
