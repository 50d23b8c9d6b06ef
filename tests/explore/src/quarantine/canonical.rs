//! States that differ only by what makes no difference; and each in a few words of memory, because
//! there are many.

use std::hash::{Hash, Hasher};

use redlock_protocol::majority;

use super::{
    Mutant, Quarantine, State,
    client::Client,
    loss::{Loss, Uptime},
    node::{Mark, Node, Standing},
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
            self.readers.swap(0, 1);
            for node in &mut self.nodes {
                node.marks.swap(0, 1);
            }
        }
        self.nodes.sort_unstable();
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

impl<const N: usize> Hash for State<N> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        for node in &self.nodes {
            hasher.write_u64(node.packed());
        }
        let mut rest = pack(&[(self.losses, 4), (self.snapshots, 4)]);
        for &Client {
            trusts,
            round,
            ttl,
            age,
        } in &self.clients
        {
            let client = [(trusts, 4), (round as u8, 2), (ttl, 4), (age, 4)];
            rest = rest << 14 | pack(&client);
        }
        for &Reader {
            voting,
            longest,
            new,
        } in &self.readers
        {
            rest = rest << 10 | pack(&[(voting, 3), (longest, 4), (new, 3)]);
        }
        hasher.write_u64(rest);
    }
}

impl Node {
    /// Different for nodes that differ.
    fn packed(&self) -> u64 {
        let (kind, loss) = match self.standing {
            Standing::Votes => (0, 0),
            Standing::Restored(uptime) => (1, u64::from(uptime.0)),
            Standing::Empty => (2, 0),
            Standing::Lost(loss) => (3, pack_loss(Some(loss))),
        };
        let [short, long] = self.knows;
        let key = [(self.owner, 2), (self.lives_for, 4), (self.votes, 2)];
        let knows = [(short, 4), (long, 4), (kind, 2)];
        let saved = &self.saved;
        let snapshot = [
            (u8::from(saved.is_there), 1),
            (saved.owner, 2),
            (saved.lives_for, 4),
        ];
        let [one, two] = self.marks.map(|mark| (mark as u8, 2));
        let mut packed = pack(&key) << 10 | pack(&knows);
        packed = packed << 7 | pack(&snapshot);
        packed = packed << 4 | pack(&[one, two]);
        packed = packed << 12 | loss;
        packed << 12 | pack_loss(saved.loss)
    }
}

fn pack_loss(loss: Option<Loss>) -> u64 {
    loss.map_or(0, |loss| {
        pack(&[
            (1, 1),
            (loss.age, 4),
            (loss.uptime.0, 4),
            (u8::from(loss.is_seen), 1),
            (u8::from(loss.beside_marker), 1),
            (u8::from(loss.is_first_start), 1),
        ])
    })
}

/// Numbers side by side, each in so many bits.
#[inline(always)]
fn pack(parts: &[(u8, u32)]) -> u64 {
    parts
        .iter()
        .fold(0, |packed, &(part, bits)| packed << bits | u64::from(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        quarantine::LastMarker,
        search::tests::{assert_canonical_forms_lose_nothing, orders},
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
                image.readers.swap(0, 1);
                for node in &mut image.nodes {
                    node.marks.swap(0, 1);
                }
            }
            images.push(image);
        }
        images
    }

    #[test]
    fn canonical_forms_lose_nothing() {
        let alike = Quarantine::<2> {
            leases: [1, 2],
            round: 1,
            unequal: false,
            readers: 0,
            losses: 1,
            snapshots: 0,
            last_marker: LastMarker::GoesOnceNoted,
            mutant: None,
        };
        assert_canonical_forms_lose_nothing(&alike, |state| images(state, true));
        let readers = Quarantine {
            readers: 2,
            unequal: true,
            ..alike
        };
        assert_canonical_forms_lose_nothing(&readers, |state| images(state, false));
    }
}
