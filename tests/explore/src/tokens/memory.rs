//! A node that loses its memory, and what makes up for it: the wait, the readings of other nodes,
//! the admission. How long the wait is, and why, is explored in `quarantine`.

use redlock_protocol::{Record, Token, rules::quarantine::Readings};

use super::Mutant;

/// How a node stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Memory {
    state: Remembers,
    /// The highest counter of the nodes that have been read.
    floor: u8,
    /// Which ones, a bit for each.
    read: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Remembers {
    #[default]
    All,
    /// It has lost its memory, and what counts its votes may still go on.
    Nothing,
    /// It has waited: each round and each lease that counts a forgotten vote is over.
    NothingThatCounts,
}

/// What comes next for a node that has lost its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Waited(Memory),
    Read { other: usize, memory: Memory },
    Admitted { counter: u8 },
}

impl Memory {
    pub(super) const LOST: Self = Self {
        state: Remembers::Nothing,
        floor: 0,
        read: 0,
    };

    /// It votes.
    pub(super) fn is_whole(self) -> bool {
        self.state == Remembers::All
    }

    /// What can follow for the node in this place, beside the counters of all.
    pub(super) fn progress<const N: usize>(
        place: usize,
        nodes: &[(Self, u8); N],
        mutant: Option<Mutant>,
    ) -> Vec<Progress> {
        let this = nodes[place].0;
        let mut progress = Vec::new();
        if this.state == Remembers::Nothing {
            progress.push(Progress::Waited(Self {
                state: Remembers::NothingThatCounts,
                ..this
            }));
        }
        let has_waited = this.state == Remembers::NothingThatCounts;
        if has_waited || !this.is_whole() && mutant == Some(Mutant::FloorBeforeTheWait) {
            progress.extend(this.readings(place, nodes, mutant));
        }
        if has_waited && let Some(counter) = this.admission(N, mutant) {
            progress.push(Progress::Admitted { counter });
        }
        progress
    }

    fn readings<const N: usize>(
        self,
        place: usize,
        nodes: &[(Self, u8); N],
        mutant: Option<Mutant>,
    ) -> impl Iterator<Item = Progress> {
        let others = (0..N).filter(move |&other| other != place && self.read >> other & 1 == 0);
        others.filter_map(move |other| {
            let (memory, counter) = nodes[other];
            let is_valid = memory.is_whole() || mutant == Some(Mutant::FloorOfTheForgetful);
            let memory = Self {
                floor: self.floor.max(counter),
                read: self.read | 1 << other,
                ..self
            };
            is_valid.then_some(Progress::Read { other, memory })
        })
    }

    /// The counter that it votes with again, once enough others were read.
    fn admission(self, nodes: usize, mutant: Option<Mutant>) -> Option<u8> {
        let mut readings = Readings::new(nodes);
        for _ in 0..self.read.count_ones() {
            readings.add(&Record {
                top: Token(u64::from(self.floor)),
                ..Record::default()
            });
        }
        let are_enough = match mutant {
            Some(Mutant::NoFloor) => true,
            Some(Mutant::FloorOfOneOther) => self.read != 0,
            _ => readings.are_enough(),
        };
        are_enough.then_some(readings.floor().0 as u8)
    }

    /// The same after the nodes have changed places.
    pub(super) fn permuted<const N: usize>(self, order: &[usize; N]) -> Self {
        Self {
            read: permuted(self.read, order),
            ..self
        }
    }

    /// What tells it from others, whatever the order of the nodes.
    pub(super) const fn rank(self) -> u64 {
        (self.state as u64) << 12 | (self.floor as u64) << 4 | self.read.count_ones() as u64
    }
}

/// A set of nodes after they have changed places.
pub(super) fn permuted<const N: usize>(nodes: u8, order: &[usize; N]) -> u8 {
    if nodes == 0 {
        return 0;
    }
    (0..N)
        .map(|place| (nodes >> order[place] & 1) << place)
        .sum()
}
