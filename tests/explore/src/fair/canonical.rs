//! States that differ only by what makes no difference.

use std::array;

use super::{PROCESSES, State, leader::Message};

impl State {
    /// Who came first matters, and not how many came before.
    pub(super) fn count_from_the_first(&mut self) {
        let mut times: Vec<u8> = self.times().map(|time| *time).collect();
        times.sort_unstable();
        times.dedup();
        times.retain(|&time| time > 0);
        for time in self.times() {
            let earlier = times.iter().filter(|other| *other < time).count() as u8;
            *time = if *time > 0 { earlier + 1 } else { 0 };
        }
    }

    pub(super) fn times(&mut self) -> impl Iterator<Item = &mut u8> {
        let processes = self.processes.iter_mut().map(|one| &mut one.came);
        let messages = self.channels.iter_mut().flatten();
        let messages = messages.flat_map(|channel| channel.messages());
        let messages = messages.filter_map(|message| match message {
            Message::Ask { came } | Message::Place { came } => Some(came),
            Message::Release | Message::Leave => None,
        });
        processes.chain(&mut self.queue).chain(messages)
    }

    /// Processes are alike, of which so many have callers, and so are the nodes that are not the leader.
    pub(super) fn sorted(self, processes: usize) -> Self {
        let mut state = self;
        let rank = |node: usize| {
            let channels = self.channels.map(|channels| channels[node]);
            let replies = self
                .processes
                .map(|one| (one.replied >> node & 1, one.granted >> node & 1));
            (self.keys[node], channels, replies)
        };
        if rank(1) > rank(2) {
            state.swap_nodes();
        }
        let mut order: [usize; PROCESSES] = array::from_fn(|process| process);
        order[..processes].sort_by_key(|&place| {
            (
                state.processes[place],
                state.queue[place],
                state.channels[place],
            )
        });
        state.permuted(order)
    }

    pub(super) fn swap_nodes(&mut self) {
        self.keys.swap(1, 2);
        for channels in &mut self.channels {
            channels.swap(1, 2);
        }
        for process in &mut self.processes {
            for set in [&mut process.replied, &mut process.granted] {
                *set = *set & 1 | *set << 1 & 4 | *set >> 1 & 2;
            }
        }
    }

    pub(super) fn permuted(self, order: [usize; PROCESSES]) -> Self {
        let place_of = |key: u8| {
            let place = order
                .iter()
                .position(|&place| place + 1 == usize::from(key));
            place.map_or(0, |place| place as u8 + 1)
        };
        Self {
            keys: self.keys.map(place_of),
            queue: order.map(|place| self.queue[place]),
            processes: order.map(|place| self.processes[place]),
            channels: order.map(|place| self.channels[place]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fair::Fair,
        search::tests::{assert_canonical_forms_lose_nothing, orders},
    };

    fn images(state: &State) -> Vec<State> {
        let mut images = Vec::new();
        for order in orders(2) {
            let mut image = state.permuted([order[0], order[1], 2]);
            images.push(image);
            image.swap_nodes();
            images.push(image);
        }
        images
    }

    #[test]
    fn canonical_forms_lose_nothing() {
        let mut fair = Fair::new(2, None);
        fair.is_patient = true;
        assert_canonical_forms_lose_nothing(&fair, images);
    }
}
