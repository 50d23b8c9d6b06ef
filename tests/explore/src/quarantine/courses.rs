//! What is explored of quarantines.

use super::{ANY_NUMBER, LastMarker, Mutant, Quarantine};
use crate::trial::{Expected, Extent, Trial, walks, whole};

const THREE: Quarantine<3> = Quarantine {
    leases: [1, 3],
    round: 1,
    unequal: true,
    readers: 1,
    losses: ANY_NUMBER,
    snapshots: 0,
    last_marker: LastMarker::GoesOnceNoted,
    mutant: None,
};

/// All must be in order.
pub(crate) fn courses() -> Vec<Trial> {
    let mut courses = three_nodes();
    courses.extend(other_numbers());
    courses
}

fn three_nodes() -> Vec<Trial> {
    let longer = Quarantine {
        leases: [2, 4],
        ..THREE
    };
    vec![
        whole(
            "quarantine: two slow readers",
            Quarantine {
                readers: 2,
                ..THREE
            },
        ),
        whole(
            "quarantine: any lease for both clients",
            Quarantine {
                unequal: false,
                ..THREE
            },
        ),
        whole("quarantine: leases of 2 and 4 rounds", longer),
        whole(
            "quarantine: leases of 1 and 2 rounds",
            Quarantine { round: 2, ..longer },
        ),
        whole(
            "quarantine: snapshots",
            Quarantine {
                readers: 0,
                snapshots: 1,
                ..THREE
            },
        ),
        whole(
            "quarantine: all nodes new, or all memory lost, default leases",
            Quarantine {
                leases: [1, 1],
                last_marker: LastMarker::Goes,
                ..THREE
            },
        ),
        walks(
            "quarantine: two slow readers, snapshots",
            Quarantine {
                readers: 2,
                snapshots: 3,
                ..longer
            },
        ),
    ]
}

fn other_numbers() -> Vec<Trial> {
    vec![
        whole(
            "quarantine: two nodes, two slow readers, snapshots",
            Quarantine {
                readers: 2,
                snapshots: 1,
                ..THREE.of::<2>()
            },
        ),
        whole("quarantine: four nodes, one slow reader", THREE.of::<4>()),
        whole(
            "quarantine: five nodes",
            Quarantine {
                readers: 0,
                ..THREE.of::<5>()
            },
        ),
        walks(
            "quarantine: five nodes, two slow readers, snapshots",
            Quarantine {
                readers: 2,
                snapshots: 3,
                ..THREE.of::<5>()
            },
        ),
    ]
}

/// Each must be found, or does not show for a reason.
pub(crate) fn mutants() -> Vec<Trial> {
    let mut mutants: Vec<Trial> = Mutant::ALL.into_iter().map(mutant).collect();
    // With five nodes, too, and at random.
    let five = Quarantine {
        readers: 0,
        mutant: Some(Mutant::TooFewRead),
        ..THREE.of::<5>()
    };
    let name = "TooFewRead, five nodes";
    mutants.push(Trial::new(name, Expected::Violation, Extent::Whole, five));
    let five = Quarantine {
        readers: 2,
        snapshots: 3,
        mutant: Some(Mutant::OldLossCounts),
        ..five
    };
    let name = "OldLossCounts, five nodes";
    mutants.push(Trial::new(name, Expected::Violation, Extent::WALKS, five));
    mutants
}

fn mutant(mutant: Mutant) -> Trial {
    let name = format!("{mutant:?}");
    let three = Quarantine {
        mutant: Some(mutant),
        ..THREE
    };
    let model = match mutant {
        Mutant::OldLossCounts | Mutant::OwnMarkerForgotten => Quarantine {
            readers: 0,
            snapshots: 1,
            ..three
        },
        _ => three,
    };
    let expected = match mutant {
        Mutant::PutBackNotNoted => Expected::Survives(
            "a key that is put back carries no vote, and the extension that counts it raises the \
             longest TTL by itself",
        ),
        _ => Expected::Violation,
    };
    Trial::new(name, expected, Extent::Whole, model)
}
