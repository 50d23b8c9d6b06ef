//! What a turn is to have, and beside which others.

use super::{Mutant, Phase, State, Turn, Turns};

/// What a turn is to have. Slots of a lock with permits have the counter of the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The lock, or the first of its slots, alone.
    #[default]
    Alone,
    /// The lock, with all others that share it.
    Shared,
    /// The second slot, alone.
    OtherSlot,
}

pub(super) const KINDS: usize = 3;

/// A writer, or readers.
pub(crate) const READERS: &[Kind] = &[Kind::Alone, Kind::Shared];

/// One caller for each of two permits.
pub(crate) const SLOTS: &[Kind] = &[Kind::Alone, Kind::OtherSlot];

impl Kind {
    /// A turn of the one excludes a turn of the other.
    fn excludes(self, other: Self) -> bool {
        let is_other_slot = |kind| kind == Self::OtherSlot;
        let shares = self == Self::Shared && other == Self::Shared;
        !shares && is_other_slot(self) == is_other_slot(other)
    }
}

impl<const N: usize> State<N> {
    /// Another turn that is held, if this one excludes it.
    pub(super) fn excluded_by(&self, turn: usize) -> Option<u8> {
        let kind = self.turns[turn].kind;
        let is_held = |other: &Turn<N>| matches!(other.phase, Phase::Held | Phase::Refreshing);
        let others = self.turns.iter().enumerate();
        let mut others = others.filter(|&(place, other)| place != turn && is_held(other));
        let found = others.find(|(_, other)| kind.excludes(other.kind));
        found.map(|(place, _)| place as u8)
    }

    /// The last token that was handed out to a turn which a turn of this kind excludes.
    pub(super) fn must_be_above(&self, kind: Kind) -> u8 {
        let kinds = [Kind::Alone, Kind::Shared, Kind::OtherSlot];
        let kinds = kinds.into_iter().filter(|other| kind.excludes(*other));
        kinds
            .map(|other| self.handed[other as usize])
            .max()
            .unwrap_or(0)
    }
}

impl<const N: usize> Turns<N> {
    /// Whether a node sets the key of a turn that has none there.
    pub(super) fn grants(&self, state: &State<N>, turn: usize, node: usize) -> bool {
        let kind = state.turns[turn].kind;
        let owners = state.nodes[node].owners;
        let mut others = (0..self.turns).filter(|other| owners >> other & 1 == 1);
        !others.any(|other| {
            let other_kind = state.turns[other].kind;
            let is_let_in = match self.mutant {
                Some(Mutant::HeldKeyGranted) => true,
                Some(Mutant::ReaderBesideWriter) => {
                    (kind, other_kind) == (Kind::Shared, Kind::Alone)
                }
                Some(Mutant::WriterBesideReaders) => {
                    (kind, other_kind) == (Kind::Alone, Kind::Shared)
                }
                Some(Mutant::SlotGivenTwice) => kind == Kind::OtherSlot,
                _ => false,
            };
            other == turn || kind.excludes(other_kind) && !is_let_in
        })
    }
}
