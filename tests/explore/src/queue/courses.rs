//! What is explored of the queue.

use super::{Mutant, Queue};
use crate::trial::{Expected, Extent, Trial};

impl Queue {
    fn new(processes: usize, is_disturbed: bool, mutant: Option<Mutant>) -> Self {
        Self {
            processes,
            is_disturbed,
            mutant,
            server: Default::default(),
        }
    }
}

/// All must be in order.
pub(crate) fn courses() -> Vec<Trial> {
    let whole = |name, processes, is_disturbed| {
        let model = Queue::new(processes, is_disturbed, None);
        Trial::new(name, Expected::Order, Extent::Whole, model)
    };
    vec![
        whole("queue: three processes", 3, false),
        whole("queue: four processes", 4, false),
        whole("queue: three processes, disturbed", 3, true),
        whole("queue: four processes, disturbed", 4, true),
    ]
}

/// Each must be found.
pub(crate) fn mutants() -> Vec<Trial> {
    let mutants = Mutant::ALL.into_iter().map(|mutant| {
        let name = format!("queue: {mutant:?}");
        let is_disturbed = mutant == Mutant::NobodyPasses;
        let model = Queue::new(3, is_disturbed, Some(mutant));
        Trial::new(name, Expected::Violation, Extent::Whole, model)
    });
    mutants.collect()
}
