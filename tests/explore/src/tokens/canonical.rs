//! States that differ only by what makes no difference.

use std::array;

use super::{
    memory::permuted,
    numbers,
    turns::{Node, Phase, State, TURNS},
};

impl<const N: usize> State<N> {
    /// Forgets votes that cannot win any more and numbers that cannot be won or handed out, and
    /// counts from the lowest that can. A node whose counter is lower may as well stand there.
    /// What it replies until then decides nothing, as if it had not replied yet.
    pub(super) fn forget_what_cannot_matter(&mut self, has_owners: bool) {
        let counters = self.nodes.map(|node| node.counter);
        let mut lowest = numbers::lowest_of_majority(counters.map(|counter| counter + 1));
        for turn in &mut self.turns {
            if !matches!(turn.phase, Phase::Over | Phase::Held) {
                numbers::forget_lost(&mut turn.votes, &counters, turn.proposal);
                let least = numbers::least(&turn.votes, &counters, turn.proposal);
                let lowest_here = numbers::lowest_of_majority(least);
                if !has_owners && turn.above < lowest_here {
                    turn.above = 0;
                }
                lowest = lowest.min(lowest_here);
            }
            if turn.next < turn.end {
                lowest = lowest.min(turn.next);
            } else {
                (turn.next, turn.end) = (0, 0);
            }
        }
        self.count_from(lowest);
    }

    fn count_from(&mut self, lowest: u8) {
        let by = lowest - 1;
        for node in &mut self.nodes {
            node.counter = node.counter.saturating_sub(by);
        }
        let counters = self.nodes.map(|node| node.counter);
        for turn in &mut self.turns {
            turn.votes = turn.votes.map(|vote| vote.saturating_sub(by));
            turn.proposal = numbers::lower_proposal(turn.proposal, by, &turn.votes, &counters);
            turn.next = turn.next.saturating_sub(by);
            turn.end = turn.end.saturating_sub(by);
            turn.above = turn.above.saturating_sub(by);
        }
        self.handed = self.handed.saturating_sub(by);
        // What lies below is forgotten.
        self.given = self.given >> by & !1;
    }

    /// Turns are alike, and so are nodes.
    pub(super) fn sorted(self) -> Self {
        let mut order = array::from_fn(|turn| turn);
        order.sort_by_key(|&turn| self.rank_of_turn(turn));
        let next = self.with_turns_in(&order);
        let mut order = array::from_fn(|node| node);
        order.sort_unstable_by_key(|&node| next.rank_of_node(node));
        next.with_nodes_in(&order)
    }

    fn with_turns_in(mut self, order: &[usize; TURNS]) -> Self {
        self.turns = order.map(|turn| self.turns[turn]);
        for node in &mut self.nodes {
            node.owners = permuted(node.owners, order);
        }
        self
    }

    fn with_nodes_in(mut self, order: &[usize; N]) -> Self {
        self.nodes = order.map(|node| self.nodes[node]);
        for node in &mut self.nodes {
            node.memory = node.memory.permuted(order);
        }
        for turn in &mut self.turns {
            turn.votes = order.map(|node| turn.votes[node]);
            turn.older = order.map(|node| turn.older[node]);
            turn.forgotten = permuted(turn.forgotten, order);
            turn.counted = permuted(turn.counted, order);
            turn.missing = permuted(turn.missing, order);
        }
        self
    }

    /// What tells a turn from the others, whatever the order of the nodes.
    fn rank_of_turn(&self, place: usize) -> impl Ord + use<N> {
        let turn = &self.turns[place];
        let has_key = |node: &&Node| node.owners >> place & 1 == 1;
        let keys = self.nodes.iter().filter(has_key).count();
        let mut votes = turn.votes;
        votes.sort_unstable();
        let round = (turn.proposal, turn.length, votes);
        let block = (turn.next, turn.end, turn.above);
        let begins = (turn.phase == Phase::Over, turn.phase);
        (begins, keys, block, round)
    }

    /// What tells a node from the others.
    fn rank_of_node(&self, node: usize) -> u128 {
        let this = &self.nodes[node];
        let rank = u128::from(this.counter) << 8 | u128::from(this.owners);
        let mut rank = rank << 16 | u128::from(this.memory.rank());
        for turn in &self.turns {
            rank = rank << 8 | u128::from(turn.votes[node]);
            for set in [turn.forgotten, turn.counted, turn.missing] {
                rank = rank << 1 | u128::from(set >> node & 1);
            }
        }
        rank
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        search::tests::{
            assert_canonical_forms_lose_nothing, assert_sliding_loses_nothing, orders,
        },
        tokens::{courses, turns::State},
        trial::with,
    };

    fn images(state: &State<3>) -> Vec<State<3>> {
        let orders = || {
            orders(3)
                .into_iter()
                .map(|order| [order[0], order[1], order[2]])
        };
        let images = |nodes| orders().map(move |turns| (nodes, turns));
        let images = orders().flat_map(images);
        let image = |(nodes, turns)| state.with_turns_in(&turns).with_nodes_in(&nodes);
        images.map(image).collect()
    }

    #[test]
    fn canonical_forms_lose_nothing() {
        let rounds = with(courses::small_rounds(), |it| it.highest = 2);
        let turns = with(courses::small_turns(), |it| it.highest = 2);
        let single = with(turns, |it| (it.highest, it.lengths) = (1, &[1]));
        for model in [
            rounds,
            with(rounds, |it| (it.turns, it.losses) = (1, true)),
            turns,
            with(single, |it| it.losses = true),
            with(single, |it| it.exclusive = false),
        ] {
            println!("{model:?}");
            assert_canonical_forms_lose_nothing(&model, images);
        }
    }

    #[test]
    fn sliding_loses_nothing() {
        let turns = with(courses::small_turns(), |it| {
            (it.highest, it.proposals) = (2, true)
        });
        for fixed in [
            with(courses::small_rounds(), |it| it.highest = 3),
            turns,
            with(turns, |it| (it.lengths, it.exclusive) = (&[1], false)),
        ] {
            println!("{fixed:?}");
            let sliding = with(fixed, |it| it.slides = true);
            assert_sliding_loses_nothing(&fixed, &sliding, images);
        }
    }
}
