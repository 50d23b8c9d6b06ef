//! What is explored of tokens.

use super::{
    Mutant,
    rounds::Rounds,
    turns::{Kind, READERS, SLOTS, Turns},
};
use crate::trial::{Expected, Extent, Trial, walks, whole};

const ROUNDS: Rounds<3> = Rounds {
    open: 2,
    highest: 4,
    lengths: &[1, 2],
    proposals: true,
    losses: false,
    slides: false,
    mutant: None,
};

const TURNS: Turns<3> = Turns {
    turns: 2,
    kinds: &[Kind::Alone],
    highest: 4,
    lengths: &[1, 2],
    proposals: false,
    exclusive: true,
    losses: false,
    slides: false,
    mutant: None,
};

/// All must be in order.
pub(crate) fn courses() -> Vec<Trial> {
    let mut courses = rounds();
    courses.extend(rounds_with_losses());
    courses.extend(turns());
    courses.extend(turns_of_two_kinds());
    courses
}

fn rounds() -> Vec<Trial> {
    let sliding = Rounds {
        slides: true,
        ..ROUNDS
    };
    vec![
        whole("rounds: two at a time, up to 4", ROUNDS),
        whole(
            "rounds: three at a time, without end",
            Rounds {
                open: 3,
                highest: 6,
                ..sliding
            },
        ),
        whole(
            "rounds: two at a time, blocks of 1 and 3, without end",
            Rounds {
                highest: 8,
                lengths: &[1, 3],
                ..sliding
            },
        ),
        whole(
            "rounds: two nodes, three at a time, without end",
            Rounds::<2> {
                open: 3,
                highest: 6,
                ..sliding.of()
            },
        ),
        whole(
            "rounds: four nodes, two at a time, without end",
            Rounds::<4> {
                highest: 5,
                ..sliding.of()
            },
        ),
        whole(
            "rounds: five nodes, two at a time, without end",
            Rounds::<5> {
                highest: 5,
                ..sliding.of()
            },
        ),
    ]
}

fn rounds_with_losses() -> Vec<Trial> {
    let losses = Rounds {
        highest: 3,
        losses: true,
        ..ROUNDS
    };
    let proposals = false;
    vec![
        whole("rounds: lost memory, up to 3", losses),
        whole(
            "rounds: lost memory, three at a time, up to 3, no proposals",
            Rounds {
                open: 3,
                proposals,
                ..losses
            },
        ),
        whole(
            "rounds: lost memory, up to 4, no proposals",
            Rounds {
                highest: 4,
                proposals,
                ..losses
            },
        ),
        walks(
            "rounds: lost memory, four nodes, three at a time",
            Rounds {
                open: 3,
                highest: 8,
                ..losses.of::<4>()
            },
        ),
        walks(
            "rounds: lost memory, five nodes, three at a time",
            Rounds {
                open: 3,
                highest: 8,
                ..losses.of::<5>()
            },
        ),
    ]
}

fn turns() -> Vec<Trial> {
    let sliding = Turns {
        proposals: true,
        slides: true,
        ..TURNS
    };
    let mut turns = vec![
        whole(
            "turns: two at a time, up to 6",
            Turns {
                highest: 6,
                ..TURNS
            },
        ),
        whole(
            "turns: two at a time, without end",
            Turns {
                highest: 5,
                ..sliding
            },
        ),
        whole(
            "turns: three at a time, without end",
            Turns {
                turns: 3,
                ..sliding
            },
        ),
        whole("turns: four nodes, without end", sliding.of::<4>()),
        whole(
            "turns: five nodes, without end",
            Turns {
                highest: 3,
                ..sliding.of::<5>()
            },
        ),
        whole(
            "turns: keys may be gone, without end",
            Turns {
                highest: 3,
                exclusive: false,
                ..sliding
            },
        ),
    ];
    turns.extend(turns_with_losses());
    turns
}

fn turns_with_losses() -> Vec<Trial> {
    let losses = Turns {
        losses: true,
        ..TURNS
    };
    vec![
        whole("turns: lost memory, up to 4", losses),
        whole(
            "turns: lost memory, up to 3, any proposals",
            Turns {
                highest: 3,
                proposals: true,
                ..losses
            },
        ),
        whole(
            "turns: lost memory, three at a time, up to 3",
            Turns {
                turns: 3,
                highest: 3,
                ..losses
            },
        ),
        walks(
            "turns: lost memory, five nodes, three at a time",
            Turns {
                turns: 3,
                highest: 9,
                proposals: true,
                ..losses.of::<5>()
            },
        ),
        walks(
            "turns: keys may be gone, five nodes, three at a time",
            Turns {
                turns: 3,
                highest: 9,
                proposals: true,
                exclusive: false,
                ..TURNS.of::<5>()
            },
        ),
    ]
}

/// Readers and writers; and callers of a lock with two permits.
fn turns_of_two_kinds() -> Vec<Trial> {
    let mut courses = Vec::new();
    for (name, kinds) in [("readers and writers", READERS), ("two permits", SLOTS)] {
        let three = Turns {
            turns: 3,
            kinds,
            lengths: &[1],
            highest: 2,
            ..TURNS
        };
        let sliding = Turns {
            proposals: true,
            slides: true,
            ..three
        };
        let two = Turns {
            turns: 2,
            lengths: &[1, 2],
            highest: 3,
            ..sliding
        };
        let losses = Turns {
            losses: true,
            ..three
        };
        let mut add = |what: &str, turns| {
            courses.push(whole(&format!("turns: {name}, {what}"), turns));
        };
        add("two at a time, without end", two);
        add("three at a time, without end", sliding);
        add("three at a time, lost memory, up to 2", losses);
    }
    courses
}

/// Each must be found, or does not show for a reason.
pub(crate) fn mutants() -> Vec<Trial> {
    let mut mutants: Vec<Trial> = Mutant::ALL.into_iter().map(mutant).collect();
    // With five nodes, too, and at random.
    let five = Rounds {
        open: 3,
        highest: 8,
        proposals: false,
        losses: true,
        mutant: Some(Mutant::FloorOfOneOther),
        ..ROUNDS.of::<5>()
    };
    mutants.push(Trial::new(
        "FloorOfOneOther, five nodes",
        Expected::Violation,
        Extent::WALKS,
        five,
    ));
    mutants
}

/// The smallest course that shows it.
fn mutant(mutant: Mutant) -> Trial {
    let name = format!("{mutant:?}");
    let violation = Expected::Violation;
    let expected = mutant.survives().map_or(violation, Expected::Survives);
    if let Some(rounds) = rounds_of(mutant) {
        Trial::new(name, expected, Extent::Whole, rounds)
    } else {
        Trial::new(name, expected, Extent::Whole, turns_of(mutant))
    }
}

/// What shows without owners.
const fn rounds_of(mutant: Mutant) -> Option<Rounds<3>> {
    let rounds = Rounds {
        mutant: Some(mutant),
        ..ROUNDS
    };
    match mutant {
        Mutant::NumberOfOne
        | Mutant::HighestNumber
        | Mutant::MiddleNumber
        | Mutant::LowestNumber
        | Mutant::CounterNotRaised
        | Mutant::RaisedToTheFirst
        | Mutant::ProposalAsItIs => Some(rounds),
        Mutant::RepliesOfTheRoundBefore => Some(Rounds {
            highest: 3,
            proposals: false,
            ..rounds
        }),
        Mutant::NoFloor
        | Mutant::FloorOfOneOther
        | Mutant::FloorBeforeTheWait
        | Mutant::FloorOfTheForgetful
        | Mutant::RoundsNotBounded
        | Mutant::AdmissionNotNamed => Some(Rounds {
            highest: 3,
            proposals: false,
            losses: true,
            ..rounds
        }),
        _ => None,
    }
}

const fn turns_of(mutant: Mutant) -> Turns<3> {
    let turns = Turns {
        mutant: Some(mutant),
        ..TURNS
    };
    match mutant {
        Mutant::ReaderBesideWriter | Mutant::WriterBesideReaders => Turns {
            kinds: READERS,
            ..turns
        },
        Mutant::ReleaseOfAllReaders => Turns {
            turns: 3,
            kinds: READERS,
            ..turns
        },
        Mutant::SlotGivenTwice => Turns {
            kinds: SLOTS,
            ..turns
        },
        Mutant::LeasesNotWaitedFor => Turns {
            losses: true,
            ..turns
        },
        Mutant::OwnerConfirms | Mutant::AnyNodeConfirms | Mutant::BlockOrderNotCompared => Turns {
            highest: 3,
            exclusive: false,
            ..turns
        },
        _ => turns,
    }
}
