//! States that differ only by what makes no difference; and each in a few words of memory.

use std::hash::{Hash, Hasher};

use super::{CLIENTS, Sharing, State, client::Client, node::Node};

impl<const N: usize> Sharing<N> {
    pub(super) fn forget_what_cannot_matter(&self, state: &mut State<N>) {
        for node in &mut state.nodes {
            // No wait is shorter than the longest round.
            let shorter = self.clients.iter().map(|&(_, lease)| lease);
            let shorter = shorter.filter(|&lease| lease < self.longest()).max();
            if node.knows[0] <= node.knows[1] || shorter.is_none_or(|lease| lease <= self.round) {
                node.knows[0] = 0;
            }
        }
    }
}

impl<const N: usize> State<N> {
    /// Nodes are alike, and so are the first two clients, if both read or write for equally long.
    pub(super) fn sort(&mut self, clients_are_alike: bool) {
        if clients_are_alike && self.clients[0] > self.clients[1] {
            self.swap_clients();
        }
        self.nodes.sort_unstable();
    }

    fn swap_clients(&mut self) {
        self.clients.swap(0, 1);
        for node in &mut self.nodes {
            node.keys.swap(0, 1);
            node.votes = node.votes & 4 | node.votes << 1 & 2 | node.votes >> 1 & 1;
        }
    }
}

impl<const N: usize> Hash for State<N> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        for node in &self.nodes {
            hasher.write_u64(node.packed());
        }
        let mut clients = 0;
        for &Client {
            trusts,
            round,
            age,
            is_joined,
        } in &self.clients
        {
            for part in [trusts, round as u8, age, u8::from(is_joined)] {
                clients = clients << 4 | u64::from(part);
            }
        }
        hasher.write_u64(clients);
    }
}

impl Node {
    /// Different for nodes that differ.
    fn packed(&self) -> u64 {
        let Self {
            keys,
            votes,
            knows,
            lost,
        } = *self;
        let mut packed = 0;
        for part in keys.into_iter().chain(knows).chain([votes, lost]) {
            packed = packed << 4 | u64::from(part);
        }
        packed
    }
}

const _: () = assert!(CLIENTS == 3, "`swap_clients` leaves the third in its place");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        search::tests::{assert_canonical_forms_lose_nothing, orders},
        sharing::courses::TWO_READERS,
    };

    fn images(state: &State<2>) -> Vec<State<2>> {
        let mut images = Vec::new();
        for order in orders(2) {
            let mut image = *state;
            image.nodes = std::array::from_fn(|place| state.nodes[order[place]]);
            images.push(image);
            image.swap_clients();
            images.push(image);
        }
        images
    }

    #[test]
    fn canonical_forms_lose_nothing() {
        let sharing = Sharing::<2>::new([TWO_READERS[0], TWO_READERS[0], TWO_READERS[2]], true);
        assert_canonical_forms_lose_nothing(&sharing, images);
    }
}
