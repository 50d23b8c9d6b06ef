//! States that differ only by what makes no difference.

use std::array;

use super::{
    State,
    caller::{Phase, Stage},
};

/// How many new numbers one step needs between two.
const ROOM: u8 = 4;

impl<const P: usize, const K: usize> State<P, K> {
    /// Which number is larger matters, and not by how much.
    pub(super) fn count_from_the_lowest(&mut self) {
        let mut is_there = [0_u64; 4];
        for number in self.numbers() {
            is_there[usize::from(*number >> 6)] |= 1 << (*number & 63);
        }
        // Zero is less than all.
        is_there[0] &= !1;
        for number in self.numbers() {
            let (word, bit) = (usize::from(*number >> 6), *number & 63);
            let below = is_there[..word]
                .iter()
                .map(|word| word.count_ones())
                .sum::<u32>();
            let here = (is_there[word] & ((1 << bit) - 1)).count_ones();
            *number = if *number == 0 {
                0
            } else {
                (below + here) as u8 + 1
            };
        }
    }

    /// For the numbers of one step.
    pub(super) fn make_room(&mut self) {
        for number in self.numbers() {
            *number *= ROOM;
        }
    }

    pub(super) fn forget_what_cannot_matter(&mut self) {
        for process in 0..P {
            for key in 0..K {
                let this = &mut self.keys[process][key];
                let is_held = this.is_held();
                if let Some(turn) = &mut this.turn {
                    // Only what is raised is compared with it.
                    if !is_held || turn.token <= self.given[key] {
                        turn.token = 0;
                    }
                    if !is_held && !turn.has_spare {
                        turn.reach = 0;
                    }
                }
            }
            let caller = &mut self.callers[process];
            if matches!(caller.phase, Phase::Held | Phase::Over | Phase::Ending) {
                for part in &mut caller.parts {
                    if let Stage::Held { token, reach, .. } = part {
                        (*token, *reach) = (0, 0);
                    }
                }
            }
        }
        // Of any majority one node is at the largest that was handed out.
        for key in 0..K {
            for node in &mut self.nodes {
                if node.counters[key] < self.given[key] {
                    node.counters[key] = 0;
                }
            }
        }
    }

    /// Nodes are alike, and so are processes that can change places.
    pub(super) fn sorted(self, symmetries: &[Symmetry<P>]) -> Self {
        let images = symmetries.iter().map(|symmetry| {
            let mut image = self.image(symmetry);
            image.nodes.sort_unstable();
            image
        });
        images.min().unwrap_or(self)
    }

    pub(super) fn image(&self, processes: &Symmetry<P>) -> Self {
        let mut image = *self;
        for (process, &from) in processes.iter().enumerate() {
            image.callers[process] = self.callers[from];
            image.keys[process] = self.keys[from];
        }
        for (node, from) in image.nodes.iter_mut().zip(&self.nodes) {
            let place_of = |owner: u8| {
                processes
                    .iter()
                    .position(|&process| process + 1 == usize::from(owner))
            };
            node.owners = from
                .owners
                .map(|owner| place_of(owner).map_or(0, |place| place as u8 + 1));
            node.granted = (0..P * K)
                .map(|at| {
                    let was_at = processes[at / K] * K + at % K;
                    (from.granted >> was_at & 1) << at
                })
                .sum();
        }
        image
    }
}

/// Which process comes to each place, and nothing differs. Not keys: they are asked for in their order.
pub(super) type Symmetry<const P: usize> = [usize; P];

pub(super) fn symmetries<const P: usize>(wants: &[u8; P]) -> Vec<Symmetry<P>> {
    let is_alike = |order: &Symmetry<P>| order.map(|process| wants[process]) == *wants;
    orders().into_iter().filter(is_alike).collect()
}

fn orders<const N: usize>() -> Vec<[usize; N]> {
    let all =
        (0..N.pow(N as u32)).map(|number| array::from_fn(|place| number / N.pow(place as u32) % N));
    all.filter(|order| (0..N).all(|one| order.contains(&one)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        search::tests::{assert_canonical_forms_lose_nothing, orders as orders_of},
        several::Several,
    };

    fn images(several: &Several<2, 2>, state: &State<2, 2>) -> Vec<State<2, 2>> {
        let mut images = Vec::new();
        for symmetry in symmetries(&several.wants) {
            for order in orders_of(3) {
                let mut image = state.image(&symmetry);
                image.nodes = array::from_fn(|place| image.nodes[order[place]]);
                images.push(image);
            }
        }
        images
    }

    #[test]
    fn canonical_forms_lose_nothing() {
        let several = Several::<2, 2>::new([0b11, 0b11]);
        assert_canonical_forms_lose_nothing(&several, |state| images(&several, state));
    }

    #[test]
    fn those_that_want_the_same_can_change_places() {
        assert_eq!(symmetries(&[0b11; 3]).len(), 6);
        assert_eq!(symmetries(&[0b11, 0b01, 0b11]).len(), 2);
        assert_eq!(symmetries(&[0b11, 0b01]).len(), 1);
    }
}
