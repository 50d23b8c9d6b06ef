//! Rounds whose numbers differ.

use super::{
    Mutant,
    numbers::{self, NOT_ASKED, Votes},
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
        if self.has(Mutant::OwnerConfirms) || self.has(Mutant::AnyNodeConfirms) {
            return self.confirm(state, turn, heard, take);
        }
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

    /// The nodes that were heard are asked to raise their counters to the highest number.
    fn confirm(&self, state: &State<N>, turn: usize, heard: &Votes<N>, take: Take<'_, N>) {
        let number = heard.iter().copied().max().unwrap_or(0);
        let mut next = *state;
        let asked = &mut next.turns[turn];
        if number + asked.length - 1 > self.highest {
            return;
        }
        asked.phase = Phase::Confirming;
        asked.proposal = number;
        asked.votes = heard.map(|vote| if vote == 0 { NOT_ASKED } else { 0 });
        let by = Move::Confirm {
            turn,
            number,
            heard: numbers::which(heard),
        };
        take(Step::new(by, next));
    }
}
