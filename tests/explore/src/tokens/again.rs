//! Rounds whose numbers differ.

use super::{
    numbers::{self, Votes},
    turns::{Move, Phase, State, Take, Turns},
};
use crate::search::Step;

impl<const N: usize> Turns<N> {
    /// A majority has replied different numbers.
    pub(super) fn disagree(
        &self,
        state: &State<N>,
        turn: usize,
        heard: &Votes<N>,
        take: Take<'_, N>,
    ) {
        let which = numbers::which(heard);
        for proposal in numbers::next_proposals(heard) {
            if proposal <= self.highest {
                self.ask_again(state, turn, (which, proposal), take);
            }
        }
    }

    /// The round is asked again, and proposes this number.
    pub(super) fn ask_again(
        &self,
        state: &State<N>,
        turn: usize,
        (heard, number): (u8, u8),
        take: Take<'_, N>,
    ) {
        let mut next = *state;
        let asked = &mut next.turns[turn];
        if asked.phase == Phase::Acquiring {
            asked.phase = Phase::Asking;
        }
        asked.begin_round(number, asked.length);
        let by = Move::Again {
            turn,
            number,
            heard,
        };
        take(Step::new(by, next));
    }
}
