//! States that differ only by what makes no difference.

use std::array;

use super::{Node, Round, State};
use crate::tokens::{memory, numbers};

impl<const N: usize> Round<N> {
    pub(super) const IDLE: Self = Self {
        is_open: false,
        proposal: 0,
        length: 0,
        above: 0,
        votes: [0; N],
        forgotten: 0,
    };
}

impl<const N: usize> State<N> {
    /// Forgets votes that cannot win any more and numbers that cannot be won, and counts from the
    /// lowest that can. A node whose counter is lower may as well stand there: what it replies until
    /// then decides nothing, as if it had not replied yet.
    pub(super) fn forget_what_cannot_matter(&mut self) {
        let counters = self.nodes.map(|node| node.counter);
        let mut lowest = numbers::lowest_of_majority(counters.map(|counter| counter + 1));
        for round in &mut self.rounds {
            if !round.is_open {
                continue;
            }
            numbers::forget_lost(&mut round.votes, &counters, round.proposal);
            let least = numbers::least(&round.votes, &counters, round.proposal);
            let lowest_here = numbers::lowest_of_majority(least);
            if round.above < lowest_here {
                round.above = 0;
            }
            lowest = lowest.min(lowest_here);
        }
        self.count_from(lowest);
    }

    fn count_from(&mut self, lowest: u8) {
        let by = lowest - 1;
        for node in &mut self.nodes {
            node.counter = node.counter.saturating_sub(by);
        }
        let counters = self.nodes.map(|node| node.counter);
        for round in &mut self.rounds {
            numbers::lower(&mut round.votes, by);
            round.above = round.above.saturating_sub(by);
            round.proposal = numbers::lower_proposal(round.proposal, by, &round.votes, &counters);
        }
        self.given = numbers::lower_given(self.given, by);
    }

    /// Rounds are alike, and so are nodes.
    pub(super) fn sorted(mut self) -> Self {
        self.rounds.sort_unstable_by_key(|round| {
            let mut votes = round.votes;
            votes.sort_unstable();
            let begins = (!round.is_open, round.proposal, round.length, round.above);
            (begins, votes)
        });
        let mut order: [usize; N] = array::from_fn(|node| node);
        order.sort_unstable_by_key(|&node| self.rank(node));
        let mut next = self;
        next.nodes = array::from_fn(|place| {
            let Node { counter, memory } = self.nodes[order[place]];
            let memory = memory.permuted(&order);
            Node { counter, memory }
        });
        for round in &mut next.rounds {
            round.forgotten = memory::permuted(round.forgotten, &order);
            let votes = round.votes;
            round.votes = array::from_fn(|place| votes[order[place]]);
        }
        next
    }

    /// What tells a node from the others.
    fn rank(&self, node: usize) -> u64 {
        let Node { counter, memory } = self.nodes[node];
        let mut rank = u64::from(counter) << 16 | memory.rank();
        for round in &self.rounds {
            let is_forgotten = round.forgotten >> node & 1;
            rank = rank << 9 | u64::from(round.votes[node]) << 1 | u64::from(is_forgotten);
        }
        rank
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        search::tests::{
            assert_canonical_forms_lose_nothing, assert_sliding_loses_nothing, orders,
        },
        tokens::rounds::Rounds,
    };

    const ROUNDS: Rounds<3> = Rounds {
        open: 2,
        highest: 2,
        lengths: &[1, 2],
        proposals: true,
        losses: false,
        slides: false,
        mutant: None,
    };

    fn images(state: &State<3>) -> Vec<State<3>> {
        let mut images = Vec::new();
        for nodes in orders(3) {
            let order = [nodes[0], nodes[1], nodes[2]];
            for rounds in orders(3) {
                let mut image = *state;
                for place in 0..3 {
                    let Node { counter, memory } = state.nodes[order[place]];
                    let memory = memory.permuted(&order);
                    image.nodes[place] = Node { counter, memory };
                    let round = state.rounds[rounds[place]];
                    image.rounds[place] = Round {
                        votes: order.map(|node| round.votes[node]),
                        forgotten: memory::permuted(round.forgotten, &order),
                        ..round
                    };
                }
                images.push(image);
            }
        }
        images
    }

    #[test]
    fn canonical_forms_lose_nothing() {
        assert_canonical_forms_lose_nothing(&ROUNDS, images);
        let losses = Rounds {
            open: 1,
            losses: true,
            ..ROUNDS
        };
        assert_canonical_forms_lose_nothing(&losses, images);
    }

    #[test]
    fn sliding_loses_nothing() {
        let fixed = Rounds {
            highest: 3,
            ..ROUNDS
        };
        let slides = true;
        assert_sliding_loses_nothing(&fixed, &Rounds { slides, ..fixed }, images);
    }
}
