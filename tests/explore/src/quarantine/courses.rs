//! What is explored of quarantines.

use super::{ANY_NUMBER, LastMarker, Mutant, Quarantine};
use crate::trial::{Trial, mutant, whole, with};

pub(super) const fn small<const N: usize>() -> Quarantine<N> {
    Quarantine {
        leases: [1, 3],
        round: 1,
        unequal: true,
        readers: 1,
        losses: ANY_NUMBER,
        snapshots: 0,
        last_marker: LastMarker::GoesOnceNoted,
        mutant: None,
    }
}

/// All must be in order.
pub(crate) fn courses() -> Vec<Trial> {
    let three = small::<3>();
    let longer = with(three, |it| it.leases = [2, 4]);
    let default_leases = with(three, |it| {
        (it.leases, it.last_marker) = ([1, 1], LastMarker::Goes);
    });
    let two_slow = with(three, |it| it.readers = 2);
    vec![
        whole("quarantine: two slow readers", two_slow),
        whole(
            "quarantine: any lease for both clients",
            with(three, |it| it.unequal = false),
        ),
        whole("quarantine: leases of 2 and 4 rounds", longer),
        whole(
            "quarantine: leases of 1 and 2 rounds",
            with(longer, |it| it.round = 2),
        ),
        whole("quarantine: snapshots", with_snapshot(three)),
        whole(
            "quarantine: all nodes new, or all memory lost, default leases",
            default_leases,
        ),
        whole(
            "quarantine: two nodes, two slow readers, snapshots",
            with(small::<2>(), |it| (it.readers, it.snapshots) = (2, 1)),
        ),
        whole("quarantine: four nodes, one slow reader", small::<4>()),
        whole("quarantine: five nodes", five()),
    ]
}

fn five() -> Quarantine<5> {
    with(small(), |it| it.readers = 0)
}

fn with_snapshot(model: Quarantine<3>) -> Quarantine<3> {
    with(model, |it| (it.readers, it.snapshots) = (0, 1))
}

/// Each must be found.
pub(crate) fn mutants() -> Vec<Trial> {
    let mut mutants: Vec<Trial> = Mutant::ALL.iter().map(smallest).collect();
    let few = with(five(), |it| it.mutant = Some(Mutant::TooFewRead));
    mutants.push(mutant("TooFewRead, five nodes", few));
    mutants
}

fn smallest(&of: &Mutant) -> Trial {
    let three = with(small::<3>(), |it| it.mutant = Some(of));
    let model = match of {
        Mutant::OldLossCounts | Mutant::OwnMarkerForgotten => with_snapshot(three),
        _ => three,
    };
    mutant(&format!("{of:?}"), model)
}
