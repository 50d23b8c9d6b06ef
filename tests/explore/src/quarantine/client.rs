//! Clients that lock: rounds, leases, keys that are put back.

use redlock_protocol::majority;

use super::{Move, Mutant, Quarantine, State, Take, node::Node};
use crate::search::Step;

/// A client that wants the lock or has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Client {
    /// For how long it trusts its lease; zero if it has none.
    pub(super) trusts: u8,
    pub(super) round: Round,
    /// The key TTL of its last round, and how long ago that began if it is open.
    pub(super) ttl: u8,
    pub(super) age: u8,
}

/// The round that is open. Requests that arrive after it has been won do what a client does that
/// puts its key back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Round {
    #[default]
    None,
    Acquires,
    Extends,
}

impl<const N: usize> Quarantine<N> {
    pub(super) fn client(&self, state: &State<N>, client: usize, take: Take<'_, N>) {
        let Client { trusts, round, .. } = state.clients[client];
        if round == Round::None {
            for &ttl in self.leases_of(client) {
                let mut next = *state;
                let this = &mut next.clients[client];
                (this.ttl, this.age) = (ttl, 0);
                let by = if trusts > 0 {
                    this.round = Round::Extends;
                    Move::Extend { client, ttl }
                } else {
                    this.round = Round::Acquires;
                    Move::Acquire { client, ttl }
                };
                take(Step::new(by, next));
            }
        }
        if trusts > 0 || round != Round::None {
            take(Step::change(state, Move::Release { client }, |next| {
                next.give_up(client)
            }));
            for node in 0..N {
                self.request(state, client, node, take);
                self.put_back(state, client, node, take);
            }
        }
    }

    const fn leases_of(&self, client: usize) -> &[u8] {
        if self.unequal && client > 0 {
            self.leases.split_at(1).0
        } else {
            &self.leases
        }
    }

    /// A request of its round arrives. The reply is counted, or lost.
    fn request(&self, state: &State<N>, client: usize, node: usize, take: Take<'_, N>) {
        if state.nodes[node].votes >> client & 1 == 1 {
            return;
        }
        let mut unheard = *state;
        let this = &state.clients[client];
        if !self.carry_out(&mut unheard.nodes[node], this, client as u8 + 1) {
            return;
        }
        let mut heard = unheard;
        heard.count(client, node);
        let wrong = heard.flaw();
        take(Step {
            by: Move::Vote { client, node },
            next: heard,
            wrong,
        });
        if unheard != *state {
            take(Step::new(Move::Unheard { client, node }, unheard));
        }
    }

    /// What the node does. False if it refuses.
    fn carry_out(&self, node: &mut Node, client: &Client, owner: u8) -> bool {
        let (is_granted, is_noted) = match client.round {
            Round::None => (false, false),
            Round::Acquires => (node.owner == 0 || node.owner == owner, true),
            Round::Extends => (node.owner == owner, !self.has(Mutant::ExtensionNotNoted)),
        };
        if !is_granted || !node.has_vote() {
            return false;
        }
        node.owner = owner;
        node.lives_for = if self.has(Mutant::ExtensionShortens) {
            client.ttl
        } else {
            node.lives_for.max(client.ttl)
        };
        if is_noted {
            self.note_ttl(node, client.ttl);
        }
        true
    }

    /// Sets the key where there is none, while the lock is held. Gives no vote.
    fn put_back(&self, state: &State<N>, client: usize, node: usize, take: Take<'_, N>) {
        let Client { trusts, ttl, .. } = state.clients[client];
        let place = &state.nodes[node];
        if trusts == 0 || place.owner != 0 || !place.has_vote() {
            return;
        }
        let mut next = *state;
        let place = &mut next.nodes[node];
        place.owner = client as u8 + 1;
        place.lives_for = ttl;
        self.note_ttl(place, ttl);
        take(Step::new(Move::PutBack { client, node }, next));
    }

    pub(super) fn tick_client(&self, state: &mut State<N>, client: usize) {
        let longest_round = self.round + u8::from(self.has(Mutant::RoundNotBounded));
        let this = &mut state.clients[client];
        if this.trusts > 0 {
            this.trusts -= 1;
            if this.trusts == 0 {
                return state.give_up(client);
            }
        }
        if this.round == Round::None {
            return;
        }
        this.age += 1;
        if this.age <= longest_round && this.age < this.ttl {
            return;
        }
        if this.round == Round::Acquires {
            state.give_up(client);
        } else {
            state.close(client);
        }
    }
}

impl<const N: usize> State<N> {
    /// Counts a vote; with a majority the client has the lock.
    fn count(&mut self, client: usize, node: usize) {
        self.nodes[node].votes |= 1 << client;
        let votes = |node: &&Node| node.votes >> client & 1 == 1;
        if self.nodes.iter().filter(votes).count() >= majority(N) {
            let this = &mut self.clients[client];
            this.trusts = this.trusts.max(this.ttl - this.age);
            self.close(client);
        }
    }

    fn close(&mut self, client: usize) {
        let this = &mut self.clients[client];
        (this.round, this.age) = (Round::None, 0);
        for node in &mut self.nodes {
            node.votes &= !(1 << client);
        }
    }

    /// The client does not trust its lease any more, or gives up, and its keys go. That they may stay
    /// for a while makes no difference: a node that still has one does what a node does that no
    /// request reaches.
    fn give_up(&mut self, client: usize) {
        self.close(client);
        self.clients[client] = Client::default();
        for node in &mut self.nodes {
            if usize::from(node.owner) == client + 1 {
                (node.owner, node.lives_for) = (0, 0);
            }
            if usize::from(node.saved.owner) == client + 1 {
                (node.saved.owner, node.saved.lives_for) = (0, 0);
            }
        }
    }

    fn flaw(&self) -> Option<String> {
        let holders = self.clients.iter().filter(|client| client.trusts > 0);
        (holders.count() > 1).then(|| "two clients hold the lock".to_owned())
    }
}
