//! What is explored of fair locks.

use super::{Fair, Mutant};
use crate::trial::{Expected, Extent, Trial};

impl Fair {
    pub(super) fn new(processes: usize, mutant: Option<Mutant>) -> Self {
        Self {
            processes,
            is_patient: processes > 2,
            expires: false,
            mutant,
            leader: Default::default(),
        }
    }
}

/// All must be in order.
pub(crate) fn courses() -> Vec<Trial> {
    let whole = |name, processes, expires| {
        let model = Fair {
            expires,
            ..Fair::new(processes, None)
        };
        Trial::new(name, Expected::Order, Extent::Whole, model)
    };
    vec![
        whole("fair: two processes", 2, false),
        whole("fair: three processes", 3, false),
        whole("fair: two processes, places that expire", 2, true),
        whole("fair: three processes, places that expire", 3, true),
    ]
}

/// Each must be found.
pub(crate) fn mutants() -> Vec<Trial> {
    let mutants = Mutant::ALL.into_iter().map(|mutant| {
        let name = format!("fair: {mutant:?}");
        let expires = matches!(mutant, Mutant::ExpiredComesAsNew | Mutant::PlaceForEver);
        let model = Fair {
            expires,
            ..Fair::new(3, Some(mutant))
        };
        Trial::new(name, Expected::Violation, Extent::Whole, model)
    });
    mutants.collect()
}
