//! What is explored of readers and writers.

use super::{CLIENTS, Mutant, Role, Sharing};
use crate::trial::{Expected, Extent, Trial};

type Clients = [(Role, u8); CLIENTS];

pub(super) const TWO_READERS: Clients = [(Role::Reads, 3), (Role::Reads, 3), (Role::Writes, 1)];

const UNEQUAL: Clients = [(Role::Reads, 1), (Role::Reads, 3), (Role::Writes, 2)];

const TWO_WRITERS: Clients = [(Role::Writes, 2), (Role::Writes, 2), (Role::Reads, 3)];

impl<const N: usize> Sharing<N> {
    pub(super) fn new(clients: Clients, losses: bool) -> Self {
        Self {
            clients,
            round: 1,
            losses,
            mutant: None,
            server: Default::default(),
        }
    }
}

/// All must be in order.
pub(crate) fn courses() -> Vec<Trial> {
    vec![
        whole(
            "two readers, lost memory",
            Sharing::<3>::new(TWO_READERS, true),
        ),
        whole(
            "two unequal readers, lost memory",
            Sharing::<3>::new(UNEQUAL, true),
        ),
        whole(
            "two writers, lost memory",
            Sharing::<3>::new(TWO_WRITERS, true),
        ),
        whole(
            "two writers, four nodes",
            Sharing::<4>::new(TWO_WRITERS, false),
        ),
    ]
}

fn whole<const N: usize>(name: &str, model: Sharing<N>) -> Trial {
    let name = format!("sharing: {name}");
    Trial::new(name, Expected::Order, Extent::Whole, model)
}

/// Each must be found.
pub(crate) fn mutants() -> Vec<Trial> {
    Mutant::ALL.into_iter().map(mutant).collect()
}

fn mutant(mutant: Mutant) -> Trial {
    let name = format!("sharing: {mutant:?}");
    let losses = matches!(mutant, Mutant::NoWait | Mutant::ReadersNotNoted);
    let model = Sharing::<3> {
        mutant: Some(mutant),
        ..Sharing::new(TWO_READERS, losses)
    };
    Trial::new(name, Expected::Violation, Extent::Whole, model)
}
