//! What is counted over all histories.

use crate::faults::Harm;

#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) acquisitions: u64,
    /// Those that hit while a lock was held or being acquired.
    pub(crate) faults: [u64; Harm::NAMES.len()],
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.acquisitions += other.acquisitions;
        for (sum, count) in self.faults.iter_mut().zip(other.faults) {
            *sum += count;
        }
    }
}
