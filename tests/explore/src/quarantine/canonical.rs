//! States that differ only by what makes no difference.

use redlock_protocol::majority;

use super::{
    Mutant, Quarantine, State,
    loss::{Loss, Uptime},
    node::{Mark, Standing},
    reader::Reader,
};

impl<const N: usize> Quarantine<N> {
    pub(super) fn forget_what_cannot_matter(&self, state: &mut State<N>) {
        for node in &mut state.nodes {
            // No wait is shorter than the longest round.
            if node.knows[0] <= node.knows[1] || self.leases[0] <= self.round {
                node.knows[0] = 0;
            }
            if let Standing::Lost(loss) = &mut node.standing
                && loss.uptime.0 <= loss.age + 1
            {
                loss.uptime = Uptime::default();
            }
            // It is found again.
            if let Some(loss) = &mut node.saved.loss
                && !self.has(Mutant::OldLossCounts)
            {
                *loss = Loss::default();
            }
        }
        for reader in &mut state.readers {
            if reader.longest <= self.round {
                reader.longest = 0;
            }
        }
        for reader in 0..self.readers {
            self.forget_of_reader(state, reader);
        }
    }

    /// A reader that has evidence reads no more. One that cannot come to any begins anew: it knows no
    /// better than one that has read nothing, and waits for the longest time that there is.
    fn forget_of_reader(&self, state: &mut State<N>, reader: usize) {
        let this = &mut state.readers[reader];
        let has_mark = |mark| state.nodes.iter().any(|node| node.marks[reader] == mark);
        let knows_no_better = this.longest == self.longest();
        let has_old_target = has_mark(Mark::OldTarget) && !self.has(Mutant::LossNotCompared);
        let has_target = has_mark(Mark::Target) || has_mark(Mark::OldTarget);
        let is_useless =
            knows_no_better || has_old_target || !has_target && !self.has(Mutant::ReadBefore);
        let has_evidence = usize::from(this.voting) > N - majority(N);
        for node in &mut state.nodes {
            let mark = &mut node.marks[reader];
            if is_useless || has_evidence && *mark == Mark::Read {
                *mark = Mark::Nothing;
            }
        }
        if is_useless {
            *this = Reader::default();
        }
    }
}

impl<const N: usize> State<N> {
    /// Nodes are alike; so are clients, if they use the same leases, and readers.
    pub(super) fn sort(&mut self, clients_are_alike: bool, readers_are_alike: bool) {
        if clients_are_alike && self.clients[0] > self.clients[1] {
            self.swap_clients();
        }
        if readers_are_alike && self.readers[0] > self.readers[1] {
            self.swap_readers();
        }
        self.nodes.sort_unstable();
    }

    fn swap_readers(&mut self) {
        self.readers.swap(0, 1);
        for node in &mut self.nodes {
            node.marks.swap(0, 1);
        }
    }

    fn swap_clients(&mut self) {
        self.clients.swap(0, 1);
        for node in &mut self.nodes {
            for owner in [&mut node.owner, &mut node.saved.owner] {
                if *owner != 0 {
                    *owner = 3 - *owner;
                }
            }
            node.votes = node.votes << 1 & 2 | node.votes >> 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        quarantine::courses::small,
        search::tests::{assert_canonical_forms_lose_nothing, orders},
        trial::with,
    };

    fn images<const N: usize>(state: &State<N>, clients_are_alike: bool) -> Vec<State<N>> {
        let mut images = Vec::new();
        for order in orders(N) {
            let mut image = *state;
            image.nodes = std::array::from_fn(|place| state.nodes[order[place]]);
            images.push(image);
            if clients_are_alike {
                image.swap_clients();
            } else {
                image.swap_readers();
            }
            images.push(image);
        }
        images
    }

    #[test]
    fn canonical_forms_lose_nothing() {
        let alike = with(small::<2>(), |it| {
            (it.leases, it.unequal, it.readers, it.losses) = ([1, 2], false, 0, 1);
        });
        assert_canonical_forms_lose_nothing(&alike, |state| images(state, true));
        let readers = with(alike, |it| (it.readers, it.unequal) = (2, true));
        assert_canonical_forms_lose_nothing(&readers, |state| images(state, false));
    }
}
