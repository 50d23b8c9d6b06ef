//! What is counted over all histories.

use std::collections::BTreeMap;

use crate::{faults::Fault, scenario::Scenario};

#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) acquisitions: u64,
    /// Those of clients of other libraries.
    pub(crate) foreign: u64,
    /// Histories in which two leases of one key were believed in at once.
    pub(crate) overlapping_histories: u64,
    /// Tokens out of order, where so much memory was lost that the theorems promise nothing.
    pub(crate) excused: u64,
    /// Histories in which tokens may be out of order for that reason.
    pub(crate) excused_histories: u64,
    /// Nodes that were admitted again with counters of a majority of others, and without.
    pub(crate) reseeds: [u64; 2],
    /// Words of nodes that a key has changed.
    pub(crate) words: u64,
    /// What was sent.
    pub(crate) requests: u64,
    /// Attempts by several at once, and those that were won.
    pub(crate) storms: u64,
    /// The longest that a lock was free while a caller waited for it, in nanoseconds.
    pub(crate) longest_gap: u64,
    /// Those that hit while a lock was held or being acquired.
    pub(crate) faults: [u64; Fault::ALL.len()],
    /// Histories of each kind.
    pub(crate) scenarios: [u64; Scenario::ALL.len()],
    /// Histories with something special about them, by its name.
    pub(crate) draws: BTreeMap<&'static str, u64>,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.acquisitions += other.acquisitions;
        self.foreign += other.foreign;
        self.overlapping_histories += other.overlapping_histories;
        self.excused += other.excused;
        self.excused_histories += other.excused_histories;
        self.words += other.words;
        self.requests += other.requests;
        self.storms += other.storms;
        self.longest_gap = self.longest_gap.max(other.longest_gap);
        add(&mut self.reseeds, &other.reseeds);
        add(&mut self.faults, &other.faults);
        add(&mut self.scenarios, &other.scenarios);
        for (name, count) in &other.draws {
            *self.draws.entry(name).or_default() += count;
        }
    }
}

pub(crate) fn add<const N: usize>(sums: &mut [u64; N], counts: &[u64; N]) {
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum += count;
    }
}
