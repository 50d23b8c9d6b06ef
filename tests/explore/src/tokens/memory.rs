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

    /// The same once it has waited, if it has not yet.
    pub(super) fn waited(self) -> Option<Self> {
        (self.state == Remembers::Nothing).then_some(Self {
            state: Remembers::NothingThatCounts,
            ..self
        })
    }

    /// The same once it has read this node with this counter, if that can count.
    pub(super) fn having_read(
        self,
        other: usize,
        (memory, counter): (Self, u8),
        mutant: Option<Mutant>,
    ) -> Option<Self> {
        let may_read = match self.state {
            Remembers::All => false,
            Remembers::Nothing => mutant == Some(Mutant::FloorBeforeTheWait),
            Remembers::NothingThatCounts => true,
        };
        let is_valid = memory.is_whole() || mutant == Some(Mutant::FloorOfTheForgetful);
        let is_new = self.read >> other & 1 == 0;
        (may_read && is_valid && is_new).then_some(Self {
            floor: self.floor.max(counter),
            read: self.read | 1 << other,
            ..self
        })
    }

    /// The counter that it votes with again, once it has waited and enough others were read.
    pub(super) fn admission(self, nodes: usize, mutant: Option<Mutant>) -> Option<u8> {
        if self.state != Remembers::NothingThatCounts {
            return None;
        }
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
