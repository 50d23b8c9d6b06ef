//! The order of numbers: rounds that ask nodes for blocks, and nothing else.
//!
//! These are [turns](super::turns) without owners, and each is over when its round has won. Every
//! round may be asked at any time, and every node may reply to it at any time: whether the key
//! is gone, carries an owner, was put back or made anew by a late copy is left open, so each of these
//! is covered. An acquisition, a refresh of a turn and a round that is asked again after a
//! disagreement are the same here. No step stands for a lost message: it is one that has not arrived
//! yet. A late request, or a round of another key of the stripe, raises a counter.

use super::{
    numbers,
    turns::{Move, State, Take, Turn, Turns},
};
use crate::search::Step;

impl<const N: usize> Turns<N> {
    /// Enough of the replies that are on their way have arrived, and the round has won.
    pub(super) fn win_round(&self, state: &State<N>, turn: usize, take: Take<'_, N>) {
        let Turn { length, above, .. } = state.turns[turn];
        let votes = &state.turns[turn].votes;
        let firsts = match (numbers::agreed(votes), self.mutant) {
            (Some(first), _) => vec![first],
            (None, Some(mutant)) => mutant.without_agreement(votes),
            (None, None) => return,
        };
        for first in firsts {
            let mut next = *state;
            next.end(turn);
            let given_before = (first <= above).then(|| {
                format!(
                    "a block from {first} is won, but {above} was given before it was asked for"
                )
            });
            let wrong = next.give(first, length).or(given_before);
            let heard = 0;
            let by = Move::Win { turn, first, heard };
            take(Step { by, next, wrong });
        }
    }
}
