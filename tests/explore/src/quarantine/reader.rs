//! Clients that let nodes in again, and read one node after another, with any pauses.

use redlock_protocol::majority;

use super::{
    Move, Mutant, Quarantine, State, Take,
    node::{Mark, Standing},
};
use crate::search::Step;

/// What it has read of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Reader {
    /// How many have a marker of their own, and the longest key TTL that they know of.
    pub(super) voting: u8,
    pub(super) longest: u8,
    /// How many were new.
    pub(super) new: u8,
}

impl<const N: usize> Quarantine<N> {
    pub(super) fn reader(&self, state: &State<N>, reader: usize, take: Take<'_, N>) {
        let mark = |node: usize| state.nodes[node].marks[reader];
        let is_target = |node: &usize| matches!(mark(*node), Mark::Target | Mark::OldTarget);
        let target = (0..N).find(is_target);
        if (0..N).any(|node| mark(node) != Mark::Nothing) {
            let mut next = *state;
            next.readers[reader] = Reader::default();
            for node in &mut next.nodes {
                node.marks[reader] = Mark::Nothing;
            }
            take(Step::new(Move::Forget { reader }, next));
        }
        if let Some(target) = target {
            self.admit_by(state, reader, target, take);
        } else {
            self.look(state, reader, take);
        }
        let Reader { voting, .. } = state.readers[reader];
        if usize::from(voting) > N - majority(N) {
            return;
        }
        let is_current = target.is_some_and(|target| mark(target) == Mark::Target);
        let is_early = target.is_none() && self.has(Mutant::ReadBefore);
        if is_current || is_early || target.is_some() && self.has(Mutant::LossNotCompared) {
            for node in (0..N).filter(|&node| mark(node) == Mark::Nothing) {
                self.read(state, reader, node, take);
            }
        }
    }

    /// Chooses a node that is to be let in, once others may be read for it.
    fn look(&self, state: &State<N>, reader: usize, take: Take<'_, N>) {
        for (node, one) in state.nodes.iter().enumerate() {
            if let Standing::Lost(loss) = one.standing
                && loss.age >= self.read_from()
                && one.marks[reader] == Mark::Nothing
            {
                take(Step::change(state, Move::Look { reader, node }, |next| {
                    next.nodes[node].marks[reader] = Mark::Target
                }));
            }
        }
    }

    fn read(&self, state: &State<N>, reader: usize, node: usize, take: Take<'_, N>) {
        let mut next = *state;
        next.nodes[node].marks[reader] = Mark::Read;
        let this = &mut next.readers[reader];
        if let Some(longest) = self.record(&state.nodes[node]) {
            this.voting += 1;
            this.longest = this.longest.max(longest);
        }
        if self.has(Mutant::FirstStartInOnePass) && state.nodes[node].is_new(self.mutant) {
            this.new += 1;
        }
        take(Step::new(Move::Read { reader, node }, next));
    }

    /// Asks the node to vote again. It compares the loss and the time with its own.
    fn admit_by(&self, state: &State<N>, reader: usize, node: usize, take: Take<'_, N>) {
        let one = &state.nodes[node];
        let is_same = one.marks[reader] == Mark::Target || self.has(Mutant::LossNotCompared);
        let Standing::Lost(loss) = one.standing else {
            return;
        };
        let read = state.readers[reader];
        let all_new = usize::from(read.new) == N - 1 && one.is_new(self.mutant);
        let wait = if all_new {
            self.leases[0]
        } else {
            self.wait(&vec![read.longest; usize::from(read.voting)])
        };
        if is_same && loss.is_over(wait) {
            take(Step::change(
                state,
                Move::AdmitBy { reader, node },
                |next| next.admit(node),
            ));
        }
    }
}
