//! What nodes do: they reply, and lose keys or all that they know.

use super::{Move, Node, Phase, State, Take, Turn, Turns};
use crate::{
    search::Step,
    tokens::{
        Mutant,
        memory::{Memory, Progress},
    },
};

impl<const N: usize> Turns<N> {
    /// The requests of a turn that can arrive, and the next ones that it can send.
    pub(super) fn requests(&self, state: &State<N>, turn: usize, take: Take<'_, N>) {
        for node in 0..N {
            self.vote(state, turn, node, take);
            if self.grants(state, turn, node) && state.nodes[node].memory.is_whole() {
                let mut next = *state;
                next.nodes[node].owners |= 1 << turn;
                let (turn, node) = (turn as u8, node as u8);
                take(Step::new(Move::Key { turn, node }, next));
            }
        }
        let phase = state.turns[turn].phase;
        let has_two = phase == Phase::Refreshing && self.has(Mutant::OlderBlockTaken);
        if phase == Phase::Held || has_two {
            self.ask(state, turn, take);
        }
    }

    /// Whether a node sets the key of a turn that has none there.
    fn grants(&self, state: &State<N>, turn: usize, node: usize) -> bool {
        let owners = state.nodes[node].owners;
        let is_ours = owners >> turn & 1 == 1;
        owners == 0 || self.has(Mutant::HeldKeyGranted) && !is_ours
    }

    /// A request arrives, and the counter `c` becomes `max(c + 1, proposal) + length - 1`.
    fn vote(&self, state: &State<N>, turn: usize, node: usize, take: Take<'_, N>) {
        let Turn {
            phase,
            proposal,
            length,
            votes,
            ..
        } = state.turns[turn];
        let Node {
            counter,
            owners,
            memory,
        } = state.nodes[node];
        let is_ours = owners >> turn & 1 == 1;
        let replies = match phase {
            Phase::Over | Phase::Held => false,
            Phase::Acquiring => self.grants(state, turn, node),
            Phase::Asking | Phase::Refreshing => is_ours || self.has(Mutant::AnyOwnerRefreshed),
            Phase::Confirming => is_ours || self.has(Mutant::AnyNodeConfirms),
        };
        if votes[node] != 0 || !replies || !memory.is_whole() {
            return;
        }
        let (first, last) = if phase == Phase::Confirming {
            (proposal, counter.max(proposal + length - 1))
        } else {
            let first = (counter + 1).max(proposal);
            (first, first + length - 1)
        };
        if last > self.highest {
            return;
        }
        let mut next = *state;
        next.nodes[node].counter = last;
        if phase == Phase::Acquiring {
            if self.has(Mutant::HeldKeyGranted) {
                next.nodes[node].owners = 0;
            }
            next.nodes[node].owners |= 1 << turn;
        }
        next.turns[turn].votes[node] = first;
        let (turn, node) = (turn as u8, node as u8);
        take(Step::new(Move::Vote { turn, node, first }, next));
    }

    /// What happens to a node by itself.
    pub(super) fn node(&self, state: &State<N>, node: usize, take: Take<'_, N>) {
        let Node {
            counter,
            owners,
            memory,
        } = state.nodes[node];
        let place = node as u8;
        if counter < self.highest && memory.is_whole() {
            let mut next = *state;
            next.nodes[node].counter += 1;
            take(Step::new(Move::Raise { node: place }, next));
        }
        let expires = !self.exclusive || self.has(Mutant::KeysExpireEarly);
        for turn in (0..self.turns).filter(|turn| expires && owners >> turn & 1 == 1) {
            let mut next = *state;
            next.nodes[node].owners &= !(1 << turn);
            let turn = turn as u8;
            take(Step::new(Move::Expire { turn, node: place }, next));
        }
        if self.losses {
            let mut next = *state;
            next.lose(node);
            take(Step::new(Move::Lose { node: place }, next));
            self.recover(state, node, take);
        }
    }

    fn recover(&self, state: &State<N>, node: usize, take: Take<'_, N>) {
        let nodes = state.nodes.map(|node| (node.memory, node.counter));
        for progress in Memory::progress(node, &nodes, self.mutant) {
            let mut next = *state;
            let place = node as u8;
            let by = match progress {
                Progress::Waited(memory) => {
                    next.nodes[node].memory = memory;
                    next.end_what_counts(node, self.mutant);
                    Move::Wait { node: place }
                }
                Progress::Read { other, memory } => {
                    next.nodes[node].memory = memory;
                    let other = other as u8;
                    Move::Read { node: place, other }
                }
                Progress::Admitted { counter } => {
                    next.nodes[node] = Node {
                        counter,
                        ..Node::default()
                    };
                    Move::Admit {
                        node: place,
                        counter,
                    }
                }
            };
            take(Step::new(by, next));
        }
    }
}

impl<const N: usize> State<N> {
    fn lose(&mut self, node: usize) {
        self.nodes[node] = Node {
            memory: Memory::LOST,
            ..Node::default()
        };
        for turn in &mut self.turns {
            if turn.votes[node] != 0 {
                turn.forgotten |= 1 << node;
            }
            turn.missing |= turn.counted & 1 << node;
        }
    }

    /// The node has waited for so long that each round and each lease is over that counts a vote
    /// which it has forgotten.
    fn end_what_counts(&mut self, node: usize, mutant: Option<Mutant>) {
        for turn in 0..self.turns.len() {
            let this = &mut self.turns[turn];
            let lease_counts = this.missing >> node & 1 == 1;
            let round_counts = this.forgotten >> node & 1 == 1;
            let leases_end = mutant != Some(Mutant::LeasesNotWaitedFor);
            let rounds_end = mutant != Some(Mutant::RoundsNotBounded);
            match this.phase {
                Phase::Held | Phase::Refreshing if lease_counts && leases_end => self.end(turn),
                Phase::Refreshing if round_counts && rounds_end => this.keep(),
                Phase::Acquiring | Phase::Asking if round_counts && rounds_end => self.end(turn),
                _ => {}
            }
        }
    }
}
