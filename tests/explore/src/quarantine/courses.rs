//! What is explored of quarantines.

use super::{ANY_NUMBER, LastMarker, Mutant, Quarantine};
use crate::trial::{Extent, Trial, mutant, walks, whole, with};

pub(super) const THREE: Quarantine<3> = Quarantine {
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
    let longer = with(THREE, |it| it.leases = [2, 4]);
    let default_leases = with(THREE, |it| {
        (it.leases, it.last_marker) = ([1, 1], LastMarker::Goes);
    });
    let two_slow = with(THREE, |it| it.readers = 2);
    let many = |it: &mut Quarantine<3>| (it.readers, it.snapshots) = (2, 3);
    vec![
        whole("quarantine: two slow readers", two_slow),
        whole(
            "quarantine: any lease for both clients",
            with(THREE, |it| it.unequal = false),
        ),
        whole("quarantine: leases of 2 and 4 rounds", longer),
        whole(
            "quarantine: leases of 1 and 2 rounds",
            with(longer, |it| it.round = 2),
        ),
        whole("quarantine: snapshots", with_snapshot(THREE)),
        whole(
            "quarantine: all nodes new, or all memory lost, default leases",
            default_leases,
        ),
        walks(
            "quarantine: two slow readers, snapshots",
            with(longer, many),
        ),
        whole(
            "quarantine: two nodes, two slow readers, snapshots",
            with(two_slow.of::<2>(), |it| it.snapshots = 1),
        ),
        whole("quarantine: four nodes, one slow reader", THREE.of::<4>()),
        whole("quarantine: five nodes", FIVE),
        walks(
            "quarantine: five nodes, two slow readers, snapshots",
            with(THREE, many).of::<5>(),
        ),
    ]
}

const FIVE: Quarantine<5> = Quarantine {
    readers: 0,
    ..THREE.of()
};

fn with_snapshot(model: Quarantine<3>) -> Quarantine<3> {
    with(model, |it| (it.readers, it.snapshots) = (0, 1))
}

/// Each must be found.
pub(crate) fn mutants() -> Vec<Trial> {
    let mut mutants: Vec<Trial> = Mutant::ALL.iter().map(smallest).collect();
    // With five nodes, too, and at random.
    let few = with(FIVE, |it| it.mutant = Some(Mutant::TooFewRead));
    mutants.push(mutant("TooFewRead, five nodes", Extent::Whole, few));
    let old = with(FIVE, |it| {
        (it.readers, it.snapshots) = (2, 3);
        it.mutant = Some(Mutant::OldLossCounts);
    });
    mutants.push(mutant("OldLossCounts, five nodes", Extent::WALKS, old));
    mutants
}

fn smallest(&of: &Mutant) -> Trial {
    let three = with(THREE, |it| it.mutant = Some(of));
    let model = match of {
        Mutant::OldLossCounts | Mutant::OwnMarkerForgotten => with_snapshot(three),
        _ => three,
    };
    mutant(&format!("{of:?}"), Extent::Whole, model)
}
