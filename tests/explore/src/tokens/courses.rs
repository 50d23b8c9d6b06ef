//! What is explored of tokens.

use super::{Mutant, turns::Turns};
use crate::trial::{Extent, Trial, mutant, walks, whole, with};

pub(super) const ROUNDS: Turns<3> = Turns {
    owners: false,
    turns: 2,
    highest: 4,
    lengths: &[1, 2],
    proposals: true,
    exclusive: false,
    losses: false,
    slides: false,
    mutant: None,
};

pub(super) const TURNS: Turns<3> = Turns {
    owners: true,
    proposals: false,
    exclusive: true,
    ..ROUNDS
};

/// All must be in order.
pub(crate) fn courses() -> Vec<Trial> {
    let mut courses = rounds();
    courses.extend(rounds_with_losses());
    courses.extend(turns());
    courses
}

fn rounds() -> Vec<Trial> {
    let sliding = with(ROUNDS, |it| it.slides = true);
    let two_nodes = with(sliding.of::<2>(), |it| (it.turns, it.highest) = (3, 6));
    let three = with(sliding, |it| (it.turns, it.highest) = (3, 6));
    let long = with(sliding, |it| (it.highest, it.lengths) = (8, &[1, 3]));
    let four_nodes = with(sliding.of::<4>(), |it| it.highest = 5);
    let five_nodes = with(sliding.of::<5>(), |it| it.highest = 5);
    vec![
        whole("rounds: two at a time, up to 4", ROUNDS),
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

fn rounds_with_losses() -> Vec<Trial> {
    let losses = with(ROUNDS, |it| (it.losses, it.highest) = (true, 3));
    let silent = with(losses, |it| it.proposals = false);
    let three = with(silent, |it| it.turns = 3);
    let high = with(silent, |it| it.highest = 4);
    let many = with(losses, |it| (it.turns, it.highest) = (3, 8));
    vec![
        whole("rounds: lost memory, up to 3", losses),
        whole(
            "rounds: lost memory, three at a time, up to 3, no proposals",
            three,
        ),
        whole("rounds: lost memory, up to 4, no proposals", high),
        walks(
            "rounds: lost memory, four nodes, three at a time",
            many.of::<4>(),
        ),
        walks(
            "rounds: lost memory, five nodes, three at a time",
            many.of::<5>(),
        ),
    ]
}

fn turns() -> Vec<Trial> {
    let sliding = with(TURNS, |it| (it.proposals, it.slides) = (true, true));
    let low = with(sliding, |it| it.highest = 3);
    let may_be_gone = with(low, |it| it.exclusive = false);
    let losses = with(TURNS, |it| it.losses = true);
    let any = with(losses, |it| (it.highest, it.proposals) = (3, true));
    let three = with(losses, |it| (it.turns, it.highest) = (3, 3));
    let many = with(TURNS.of::<5>(), |it| {
        (it.turns, it.highest, it.proposals) = (3, 9, true);
    });
    let many_losses = with(many, |it| it.losses = true);
    let many_gone = with(many, |it| it.exclusive = false);
    vec![
        whole(
            "turns: two at a time, up to 6",
            with(TURNS, |it| it.highest = 6),
        ),
        whole(
            "turns: two at a time, without end",
            with(sliding, |it| it.highest = 5),
        ),
        whole(
            "turns: three at a time, without end",
            with(sliding, |it| it.turns = 3),
        ),
        whole("turns: four nodes, without end", sliding.of::<4>()),
        whole("turns: five nodes, without end", low.of::<5>()),
        whole("turns: keys may be gone, without end", may_be_gone),
        whole("turns: lost memory, up to 4", losses),
        whole("turns: lost memory, up to 3, any proposals", any),
        whole("turns: lost memory, three at a time, up to 3", three),
        walks(
            "turns: lost memory, five nodes, three at a time",
            many_losses,
        ),
        walks(
            "turns: keys may be gone, five nodes, three at a time",
            many_gone,
        ),
    ]
}

/// Each must be found.
pub(crate) fn mutants() -> Vec<Trial> {
    let mut mutants: Vec<Trial> = Mutant::ALL.iter().map(smallest).collect();
    // With five nodes, too, and at random.
    let five = with(model_of(Mutant::FloorOfOneOther).of::<5>(), |it| {
        (it.turns, it.highest) = (3, 8);
    });
    mutants.push(mutant("FloorOfOneOther, five nodes", Extent::WALKS, five));
    mutants
}

/// The smallest course that shows it.
fn smallest(of: &Mutant) -> Trial {
    mutant(&format!("{of:?}"), Extent::Whole, model_of(*of))
}

fn model_of(mutant: Mutant) -> Turns<3> {
    let model = match mutant {
        Mutant::NumberOfOne
        | Mutant::HighestNumber
        | Mutant::MiddleNumber
        | Mutant::LowestNumber
        | Mutant::CounterNotRaised
        | Mutant::RaisedToTheFirst
        | Mutant::ProposalAsItIs => ROUNDS,
        Mutant::RepliesOfTheRoundBefore => with(ROUNDS, |it| {
            (it.highest, it.proposals) = (3, false);
        }),
        Mutant::NoFloor
        | Mutant::FloorOfOneOther
        | Mutant::FloorBeforeTheWait
        | Mutant::FloorOfTheForgetful
        | Mutant::RoundsNotBounded => with(ROUNDS, |it| {
            (it.highest, it.proposals, it.losses) = (3, false, true);
        }),
        Mutant::LeasesNotWaitedFor => with(TURNS, |it| it.losses = true),
        Mutant::OwnerConfirms | Mutant::AnyNodeConfirms => with(TURNS, |it| {
            (it.highest, it.exclusive) = (3, false);
        }),
        Mutant::OlderBlockTaken
        | Mutant::BlockOutlivesTurn
        | Mutant::HeldKeyGranted
        | Mutant::AnyOwnerRefreshed
        | Mutant::KeysExpireEarly => TURNS,
    };
    with(model, |it| it.mutant = Some(mutant))
}
