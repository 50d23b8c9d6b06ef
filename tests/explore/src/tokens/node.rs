//! What nodes do: they reply, and lose keys or all that they know.

use super::{
    Mutant,
    memory::Memory,
    turns::{Move, Node, Phase, State, Take, Turn, Turns},
};
use crate::search::Step;

impl<const N: usize> Turns<N> {
    /// The requests of a turn that can arrive, and the next ones that it can send.
    pub(super) fn requests(&self, state: &State<N>, turn: usize, take: Take<'_, N>) {
        for node in 0..N {
            self.vote(state, turn, node, take);
            let can_have_key = self.owners && state.nodes[node].memory.is_whole();
            if can_have_key && self.grants(state, turn, node) {
                take(Step::change(state, Move::Key { turn, node }, |next| {
                    next.nodes[node].owners |= 1 << turn
                }));
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

    /// A request arrives.
    fn vote(&self, state: &State<N>, turn: usize, node: usize, take: Take<'_, N>) {
        let asked = &state.turns[turn];
        let here = &state.nodes[node];
        let is_ours = here.owners >> turn & 1 == 1;
        let replies = match asked.phase {
            Phase::Over | Phase::Held => false,
            _ if !self.owners => true,
            Phase::Acquiring => self.grants(state, turn, node),
            Phase::Asking | Phase::Refreshing => is_ours || self.has(Mutant::AnyOwnerRefreshed),
        };
        if asked.votes[node] != 0 || !replies || !here.memory.is_whole() {
            return;
        }
        let (first, last) = self.numbers(asked, here.counter);
        if last > self.highest {
            return;
        }
        let mut next = *state;
        let is_raised = !self.has(Mutant::RaisedToTheFirst);
        next.nodes[node].counter = if is_raised { last } else { first };
        if self.owners && asked.phase == Phase::Acquiring {
            if self.has(Mutant::HeldKeyGranted) {
                next.nodes[node].owners = 0;
            }
            next.nodes[node].owners |= 1 << turn;
        }
        next.turns[turn].votes[node] = first;
        take(Step::new(Move::Vote { turn, node, first }, next));
    }

    /// What a node replies, and its counter then: `c` becomes `max(c + 1, proposal) + length - 1`.
    fn numbers(&self, asked: &Turn<N>, counter: u8) -> (u8, u8) {
        let Turn {
            proposal, length, ..
        } = *asked;
        let first = match self.mutant {
            Some(Mutant::CounterNotRaised) => counter.max(proposal).max(1),
            Some(Mutant::ProposalAsItIs) if proposal > 0 => proposal,
            _ => (counter + 1).max(proposal),
        };
        (first, first + length - 1)
    }

    /// What happens to a node by itself.
    pub(super) fn node(&self, state: &State<N>, node: usize, take: Take<'_, N>) {
        let Node { owners, memory, .. } = state.nodes[node];
        if state.nodes[node].counter < self.highest && memory.is_whole() {
            take(Step::change(state, Move::Raise { node }, |next| {
                next.nodes[node].counter += 1
            }));
        }
        let expires = !self.exclusive || self.has(Mutant::KeysExpireEarly);
        for turn in (0..self.turns).filter(|turn| expires && owners >> turn & 1 == 1) {
            take(Step::change(state, Move::Expire { turn, node }, |next| {
                next.nodes[node].owners &= !(1 << turn)
            }));
        }
        if self.losses {
            take(Step::change(state, Move::Lose { node }, |next| {
                next.lose(node)
            }));
            self.recover(state, node, take);
        }
    }

    fn recover(&self, state: &State<N>, node: usize, take: Take<'_, N>) {
        let this = state.nodes[node].memory;
        if let Some(memory) = this.waited() {
            take(Step::change(state, Move::Wait { node }, |next| {
                next.nodes[node].memory = memory;
                next.end_what_counts(node, self.mutant);
            }));
        }
        for other in (0..N).filter(|&other| other != node) {
            let that = (state.nodes[other].memory, state.nodes[other].counter);
            if let Some(memory) = this.having_read(other, that, self.mutant) {
                take(Step::change(state, Move::Read { node, other }, |next| {
                    next.nodes[node].memory = memory;
                }));
            }
        }
        if let Some(counter) = this.admission(N, self.mutant) {
            take(Step::change(state, Move::Admit { node, counter }, |next| {
                next.nodes[node] = Node {
                    counter,
                    ..Node::default()
                };
            }));
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
