//! What is explored of tokens.

use super::{Mutant, turns::Turns};
use crate::trial::{Trial, mutant, whole, with};

pub(super) const fn small_rounds<const N: usize>() -> Turns<N> {
    Turns {
        owners: false,
        turns: 2,
        highest: 4,
        lengths: &[1, 2],
        proposals: true,
        exclusive: false,
        losses: false,
        slides: false,
        mutant: None,
    }
}

pub(super) const fn small_turns<const N: usize>() -> Turns<N> {
    Turns {
        owners: true,
        proposals: false,
        exclusive: true,
        ..small_rounds()
    }
}

/// All must be in order.
pub(crate) fn courses() -> Vec<Trial> {
    let mut courses = rounds();
    courses.extend(rounds_with_losses());
    courses.extend(turns());
    courses
}

fn rounds() -> Vec<Trial> {
    let two_nodes = with(sliding_rounds::<2>(), |it| (it.turns, it.highest) = (3, 6));
    let three = with(sliding_rounds::<3>(), |it| (it.turns, it.highest) = (3, 6));
    let long = with(sliding_rounds::<3>(), |it| {
        (it.highest, it.lengths) = (8, &[1, 3])
    });
    let four_nodes = with(sliding_rounds::<4>(), |it| it.highest = 5);
    let five_nodes = with(sliding_rounds::<5>(), |it| it.highest = 5);
    vec![
        whole("rounds: two at a time, up to 4", small_rounds::<3>()),
        whole("rounds: three at a time, without end", three),
        whole(
            "rounds: two at a time, blocks of 1 and 3, without end",
            long,
        ),
        whole("rounds: two nodes, three at a time, without end", two_nodes),
        whole("rounds: four nodes, two at a time, without end", four_nodes),
        whole("rounds: five nodes, two at a time, without end", five_nodes),
    ]
}

fn sliding_rounds<const N: usize>() -> Turns<N> {
    with(small_rounds(), |it| it.slides = true)
}

fn rounds_with_losses() -> Vec<Trial> {
    let losses = with(small_rounds::<3>(), |it| {
        (it.losses, it.highest) = (true, 3)
    });
    let silent = with(losses, |it| it.proposals = false);
    let three = with(silent, |it| it.turns = 3);
    let high = with(silent, |it| it.highest = 4);
    vec![
        whole("rounds: lost memory, up to 3", losses),
        whole(
            "rounds: lost memory, three at a time, up to 3, no proposals",
            three,
        ),
        whole("rounds: lost memory, up to 4, no proposals", high),
    ]
}

fn turns() -> Vec<Trial> {
    let sliding = sliding_turns::<3>();
    let low = with(sliding, |it| it.highest = 3);
    let five_nodes = with(sliding_turns::<5>(), |it| it.highest = 3);
    let may_be_gone = with(low, |it| it.exclusive = false);
    let losses = with(small_turns::<3>(), |it| it.losses = true);
    let any = with(losses, |it| (it.highest, it.proposals) = (3, true));
    let three = with(losses, |it| (it.turns, it.highest) = (3, 3));
    vec![
        whole(
            "turns: two at a time, up to 6",
            with(small_turns::<3>(), |it| it.highest = 6),
        ),
        whole(
            "turns: two at a time, without end",
            with(sliding, |it| it.highest = 5),
        ),
        whole(
            "turns: three at a time, without end",
            with(sliding, |it| it.turns = 3),
        ),
        whole("turns: four nodes, without end", sliding_turns::<4>()),
        whole("turns: five nodes, without end", five_nodes),
        whole("turns: keys may be gone, without end", may_be_gone),
        whole("turns: lost memory, up to 4", losses),
        whole("turns: lost memory, up to 3, any proposals", any),
        whole("turns: lost memory, three at a time, up to 3", three),
    ]
}

fn sliding_turns<const N: usize>() -> Turns<N> {
    with(small_turns(), |it| (it.proposals, it.slides) = (true, true))
}

/// Each must be found.
pub(crate) fn mutants() -> Vec<Trial> {
    Mutant::ALL.iter().map(smallest).collect()
}

/// The smallest course that shows it.
fn smallest(of: &Mutant) -> Trial {
    mutant(&format!("{of:?}"), model_of(*of))
}

fn model_of(mutant: Mutant) -> Turns<3> {
    let model = match mutant {
        Mutant::NumberOfOne
        | Mutant::HighestNumber
        | Mutant::MiddleNumber
        | Mutant::LowestNumber
        | Mutant::CounterNotRaised
        | Mutant::RaisedToTheFirst
        | Mutant::ProposalAsItIs => small_rounds(),
        Mutant::RepliesOfTheRoundBefore => with(small_rounds(), |it| {
            (it.highest, it.proposals) = (3, false);
        }),
        Mutant::NoFloor
        | Mutant::FloorOfOneOther
        | Mutant::FloorBeforeTheWait
        | Mutant::FloorOfTheForgetful
        | Mutant::RoundsNotBounded => with(small_rounds(), |it| {
            (it.highest, it.proposals, it.losses) = (3, false, true);
        }),
        Mutant::LeasesNotWaitedFor => with(small_turns(), |it| it.losses = true),
        Mutant::OlderBlockTaken
        | Mutant::BlockOutlivesTurn
        | Mutant::HeldKeyGranted
        | Mutant::AnyOwnerRefreshed
        | Mutant::KeysExpireEarly => small_turns(),
    };
    with(model, |it| it.mutant = Some(mutant))
}
