//! Processes that lock: rounds, leases, sections that join, keys that are put back.

use redlock_protocol::majority;

use super::{
    CLIENTS, Move, Mutant, Role, Sharing, State, Take,
    node::{Node, Question},
};
use crate::search::Step;

/// A process that wants the lock or has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Client {
    /// For how long it trusts its lease; zero if it has none.
    pub(super) trusts: u8,
    pub(super) round: Round,
    /// How long ago the round began that is open.
    pub(super) age: u8,
    /// It has two sections with the lock.
    pub(super) is_joined: bool,
}

/// The round that is open. Requests that arrive after it has been won do what a client does that puts its
/// key back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Round {
    #[default]
    None,
    Acquires,
    Extends,
}

impl<const N: usize> Sharing<N> {
    pub(super) fn client(&self, state: &State<N>, client: usize, take: Take<'_, N>) {
        let this = state.clients[client];
        let place = client as u8;
        if this.round == Round::None {
            let mut next = *state;
            let (round, by) = match this.trusts {
                0 => (Round::Acquires, Move::Acquire { client: place }),
                _ => (Round::Extends, Move::Extend { client: place }),
            };
            (next.clients[client].round, next.clients[client].age) = (round, 0);
            take(Step::new(by, next));
        }
        if this == Client::default() {
            return;
        }
        if this.trusts > 0 && self.role(client) == Role::Reads {
            let mut next = *state;
            next.clients[client].is_joined = !this.is_joined;
            if this.is_joined && self.has(Mutant::ReleaseWithTheFirstSection) {
                self.delete_keys(&mut next, client);
            }
            let by = match this.is_joined {
                false => Move::Join { client: place },
                true => Move::Leave { client: place },
            };
            take(Step::new(by, next));
        }
        if !this.is_joined {
            let mut next = *state;
            self.give_up(&mut next, client);
            take(Step::new(Move::Release { client: place }, next));
        }
        for node in 0..N {
            self.vote(state, client, node, take);
            self.put_back(state, client, node, take);
        }
    }

    /// A request of its round arrives. The reply is counted, or lost.
    fn vote(&self, state: &State<N>, client: usize, node: usize, take: Take<'_, N>) {
        let question = match state.clients[client].round {
            Round::None => return,
            Round::Acquires => Question::Acquire,
            Round::Extends => Question::Extend,
        };
        if state.nodes[node].votes >> client & 1 == 1 || !state.nodes[node].has_vote() {
            return;
        }
        let mut unheard = *state;
        let is_granted = self.carry_out(&mut unheard.nodes[node], client, question);
        if !is_granted && !self.counts_refusal(&state.nodes[node], client, question) {
            return;
        }
        let mut heard = unheard;
        heard.nodes[node].votes |= 1 << client;
        self.count(&mut heard, client);
        let wrong = self.flaw(&heard);
        let (client, node) = (client as u8, node as u8);
        take(Step {
            by: Move::Vote { client, node },
            next: heard,
            wrong,
        });
        if unheard != *state {
            take(Step::new(Move::Unheard { client, node }, unheard));
        }
    }

    /// In a mutant: a node that has refused counts all the same.
    fn counts_refusal(&self, node: &Node, client: usize, question: Question) -> bool {
        let keys = |role| (0..CLIENTS).any(|one| node.keys[one] > 0 && self.role(one) == role);
        let reads = self.role(client) == Role::Reads;
        match self.mutant {
            Some(Mutant::ReaderBesideWriter) => {
                reads && question == Question::Acquire && keys(Role::Writes)
            }
            Some(Mutant::WriterBesideReaders) => {
                !reads && question == Question::Acquire && keys(Role::Reads)
            }
            Some(Mutant::ExtensionOfAnybody) => {
                reads && question == Question::Extend && keys(Role::Reads)
            }
            _ => false,
        }
    }

    /// Sets the key where there is none, while the lock is held. Gives no vote.
    fn put_back(&self, state: &State<N>, client: usize, node: usize, take: Take<'_, N>) {
        if state.clients[client].trusts == 0 || !state.nodes[node].has_vote() {
            return;
        }
        let mut next = *state;
        self.carry_out(&mut next.nodes[node], client, Question::PutBack);
        if next != *state {
            let (client, node) = (client as u8, node as u8);
            take(Step::new(Move::PutBack { client, node }, next));
        }
    }

    pub(super) fn tick_client(&self, state: &mut State<N>, client: usize) {
        let this = &mut state.clients[client];
        if this.trusts > 0 {
            this.trusts -= 1;
            if this.trusts == 0 {
                return self.give_up(state, client);
            }
        }
        if this.round == Round::None {
            return;
        }
        this.age += 1;
        if this.age <= self.round && this.age < self.lease(client) {
            return;
        }
        if this.round == Round::Acquires {
            self.give_up(state, client);
        } else {
            state.close(client);
        }
    }

    /// With a majority the client has the lock.
    fn count(&self, state: &mut State<N>, client: usize) {
        let votes = |node: &&Node| node.votes >> client & 1 == 1;
        if state.nodes.iter().filter(votes).count() >= majority(N) {
            let this = &mut state.clients[client];
            this.trusts = this.trusts.max(self.lease(client) - this.age);
            state.close(client);
        }
    }

    /// The client does not trust its lease any more, or gives up, and its keys go. That they may stay for a
    /// while makes no difference: a node that still has one refuses writers, as one does that no request
    /// reaches, and readers get on it what they would get on a node without keys.
    fn give_up(&self, state: &mut State<N>, client: usize) {
        state.close(client);
        state.clients[client] = Client::default();
        self.delete_keys(state, client);
    }

    fn delete_keys(&self, state: &mut State<N>, client: usize) {
        for node in &mut state.nodes {
            self.carry_out(node, client, Question::Release);
        }
    }

    fn flaw(&self, state: &State<N>) -> Option<String> {
        let trusts = |client: &usize| state.clients[*client].trusts > 0;
        let writer = (0..CLIENTS)
            .filter(trusts)
            .find(|&one| self.role(one) == Role::Writes)?;
        let others = (0..CLIENTS).filter(trusts).filter(|&one| one != writer);
        (others.count() > 0).then(|| "a client has the lock beside a writer".to_owned())
    }
}

impl<const N: usize> State<N> {
    fn close(&mut self, client: usize) {
        let this = &mut self.clients[client];
        (this.round, this.age) = (Round::None, 0);
        for node in &mut self.nodes {
            node.votes &= !(1 << client);
        }
    }
}
