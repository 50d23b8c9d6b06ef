//! What is counted over all histories.

use crate::faults::Harm;

#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) acquisitions: u64,
    /// Histories in which two leases of one key were believed in at once.
    pub(crate) overlapping_histories: u64,
    /// Tokens out of order, and what followed from them at the store, where so much memory was
    /// lost that the theorems promise nothing.
    pub(crate) excused: u64,
    /// Histories in which tokens may be out of order for that reason.
    pub(crate) excused_histories: u64,
    /// Nodes that were admitted again with counters of a quorum of others, and without.
    pub(crate) reseeds: [u64; 2],
    /// Operations that the fenced store has accepted, and rejected.
    pub(crate) fenced: [u64; 2],
    /// Words of nodes that a key has changed.
    pub(crate) words: u64,
    /// Those that hit while a lock was held or being acquired.
    pub(crate) faults: [u64; Harm::NAMES.len()],
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.acquisitions += other.acquisitions;
        self.overlapping_histories += other.overlapping_histories;
        self.excused += other.excused;
        self.excused_histories += other.excused_histories;
        self.words += other.words;
        for side in [0, 1] {
            self.reseeds[side] += other.reseeds[side];
            self.fenced[side] += other.fenced[side];
        }
        for (sum, count) in self.faults.iter_mut().zip(other.faults) {
            *sum += count;
        }
    }
}
