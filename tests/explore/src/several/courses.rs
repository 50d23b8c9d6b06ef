//! What is explored of sections with several keys.

use super::{Mutant, Several, canonical::symmetries};
use crate::trial::{Expected, Extent, Trial};

impl<const P: usize, const K: usize> Several<P, K> {
    pub(super) fn new(wants: [u8; P]) -> Self {
        Self {
            wants,
            losses: false,
            clocks: false,
            single: false,
            extends: false,
            mutant: None,
            symmetries: symmetries(&wants),
        }
    }
}

const BOTH: u8 = 0b11;

/// All must be in order.
pub(crate) fn courses() -> Vec<Trial> {
    let two = Several::<2, 2>::new([BOTH; 2]);
    vec![
        whole(
            "several keys: two processes, lost memory",
            Several {
                losses: true,
                extends: true,
                clocks: true,
                ..two.clone()
            },
        ),
        whole(
            "several keys: two processes, and sections with one",
            Several {
                clocks: true,
                single: true,
                ..two
            },
        ),
        whole(
            "several keys: three processes, two keys, lost memory",
            Several {
                losses: true,
                ..Several::<3, 2>::new([BOTH; 3])
            },
        ),
        whole(
            "several keys: three processes, one with two keys, lost memory",
            Several {
                losses: true,
                ..Several::<3, 2>::new([BOTH, 0b01, 0b10])
            },
        ),
        whole(
            "several keys: two processes, three keys",
            Several::<2, 3>::new([0b111; 2]),
        ),
        whole(
            "several keys: three processes, in a circle",
            Several::<3, 3>::new([0b011, 0b110, 0b101]),
        ),
    ]
}

fn whole<const P: usize, const K: usize>(name: &str, model: Several<P, K>) -> Trial {
    Trial::new(name, Expected::Order, Extent::Whole, model)
}

/// Each must be found.
pub(crate) fn mutants() -> Vec<Trial> {
    Mutant::ALL.into_iter().map(mutant).collect()
}

fn mutant(mutant: Mutant) -> Trial {
    let name = format!("several keys: {mutant:?}");
    let losses = matches!(mutant, Mutant::NoWait | Mutant::NoFloor);
    let model = Several::<2, 2> {
        losses,
        single: true,
        mutant: Some(mutant),
        ..Several::new([BOTH; 2])
    };
    Trial::new(name, Expected::Violation, Extent::Whole, model)
}
