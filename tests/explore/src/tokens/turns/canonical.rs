//! States that differ only by what makes no difference.

use std::array;

use super::{Node, Phase, State, TURNS, Turn};
use crate::tokens::{memory, numbers};

impl<const N: usize> Turn<N> {
    pub(super) const OVER: Self = Self {
        phase: Phase::Over,
        proposal: 0,
        length: 0,
        votes: [0; N],
        forgotten: 0,
        older: [0; N],
        next: 0,
        end: 0,
        last: 0,
        counted: 0,
        missing: 0,
    };
}

impl<const N: usize> State<N> {
    /// Forgets votes that cannot win any more and numbers that cannot be won or handed out, and
    /// counts from the lowest that can. A node whose counter is lower may as well stand there.
    pub(super) fn forget_what_cannot_matter(&mut self) {
        let counters = self.nodes.map(|node| node.counter);
        let mut lowest = numbers::lowest_of_majority(counters.map(|counter| counter + 1));
        for turn in &mut self.turns {
            if !matches!(turn.phase, Phase::Over | Phase::Held) {
                numbers::forget_lost(&mut turn.votes, &counters, turn.proposal);
                let least = numbers::least(&turn.votes, &counters, turn.proposal);
                lowest = lowest.min(numbers::lowest_of_majority(least));
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
            numbers::lower(&mut turn.votes, by);
            turn.proposal = numbers::lower_proposal(turn.proposal, by, &turn.votes, &counters);
            turn.next = turn.next.saturating_sub(by);
            turn.end = turn.end.saturating_sub(by);
            turn.last = turn.last.saturating_sub(by);
        }
        self.handed = self.handed.saturating_sub(by);
        self.given = numbers::lower_given(self.given, by);
    }

    /// Turns are alike, and so are nodes.
    pub(super) fn sorted(self) -> Self {
        let mut next = self.with_turns_sorted();
        let mut order: [usize; N] = array::from_fn(|node| node);
        order.sort_unstable_by_key(|&node| next.rank_of_node(node));
        let nodes = next.nodes;
        next.nodes = array::from_fn(|place| {
            let node = nodes[order[place]];
            Node {
                memory: node.memory.permuted(&order),
                ..node
            }
        });
        for turn in &mut next.turns {
            let before = *turn;
            turn.votes = array::from_fn(|place| before.votes[order[place]]);
            turn.older = array::from_fn(|place| before.older[order[place]]);
            turn.forgotten = memory::permuted(before.forgotten, &order);
            turn.counted = memory::permuted(before.counted, &order);
            turn.missing = memory::permuted(before.missing, &order);
        }
        next
    }

    fn with_turns_sorted(self) -> Self {
        let mut order: [usize; TURNS] = array::from_fn(|turn| turn);
        order.sort_by_key(|&turn| self.rank_of_turn(turn));
        let mut next = self;
        next.turns = array::from_fn(|place| self.turns[order[place]]);
        for node in &mut next.nodes {
            node.owners = memory::permuted(node.owners, &order);
        }
        next
    }

    /// What tells a turn from the others, whatever the order of the nodes.
    fn rank_of_turn(&self, place: usize) -> impl Ord + use<N> {
        let turn = &self.turns[place];
        let has_key = |node: &&Node| node.owners >> place & 1 == 1;
        let keys = self.nodes.iter().filter(has_key).count();
        let mut votes = turn.votes;
        votes.sort_unstable();
        let round = (turn.proposal, turn.length, votes);
        let block = (turn.next, turn.end, turn.last);
        let begins = (turn.phase == Phase::Over, turn.phase);
        (begins, keys, block, round)
    }

    /// What tells a node from the others.
    fn rank_of_node(&self, node: usize) -> u128 {
        let Node {
            counter,
            owners,
            memory,
        } = self.nodes[node];
        let rank = u128::from(counter) << 8 | u128::from(owners);
        let mut rank = rank << 16 | u128::from(memory.rank());
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
    use super::*;
    use crate::{
        search::tests::{
            assert_canonical_forms_lose_nothing, assert_sliding_loses_nothing, orders,
        },
        tokens::turns::Turns,
    };

    const TURNS: Turns<3> = Turns {
        turns: 2,
        highest: 2,
        lengths: &[1, 2],
        proposals: false,
        exclusive: true,
        losses: false,
        slides: false,
        mutant: None,
    };

    fn images(state: &State<3>) -> Vec<State<3>> {
        let mut images = Vec::new();
        for nodes in orders(3) {
            let order = [nodes[0], nodes[1], nodes[2]];
            for turns in orders(3) {
                let mut image = *state;
                for place in 0..3 {
                    let node = state.nodes[order[place]];
                    let turns = [turns[0], turns[1], turns[2]];
                    image.nodes[place] = Node {
                        owners: memory::permuted(node.owners, &turns),
                        memory: node.memory.permuted(&order),
                        ..node
                    };
                    let turn = state.turns[turns[place]];
                    image.turns[place] = Turn {
                        votes: order.map(|node| turn.votes[node]),
                        older: order.map(|node| turn.older[node]),
                        forgotten: memory::permuted(turn.forgotten, &order),
                        counted: memory::permuted(turn.counted, &order),
                        missing: memory::permuted(turn.missing, &order),
                        ..turn
                    };
                }
                images.push(image);
            }
        }
        images
    }

    #[test]
    fn canonical_forms_lose_nothing() {
        assert_canonical_forms_lose_nothing(&TURNS, images);
        let single = Turns {
            highest: 1,
            lengths: &[1],
            ..TURNS
        };
        let losses = Turns {
            losses: true,
            ..single
        };
        assert_canonical_forms_lose_nothing(&losses, images);
        let exclusive = false;
        assert_canonical_forms_lose_nothing(
            &Turns {
                exclusive,
                ..single
            },
            images,
        );
    }

    #[test]
    fn sliding_loses_nothing() {
        let fixed = Turns {
            proposals: true,
            ..TURNS
        };
        let slides = true;
        assert_sliding_loses_nothing(&fixed, &Turns { slides, ..fixed }, images);
        let fixed = Turns {
            lengths: &[1],
            ..fixed
        };
        let fixed = Turns {
            exclusive: false,
            ..fixed
        };
        assert_sliding_loses_nothing(&fixed, &Turns { slides, ..fixed }, images);
    }
}
