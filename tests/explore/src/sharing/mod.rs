//! Readers and writers: no client has the lock beside a writer.
//!
//! Time is discrete, and one key is enough. A process reads, with one section or two, or writes; it trusts
//! its lease for as long as it wished, from before its first request. Requests and replies may be late or
//! lost, a process may give up at any moment, and nodes lose their memory and vote again as the protocol
//! decides. What a request makes of the key on a node is decided by the protocol's own `model::Model`.
//!
//! That nodes refuse readers while a writer waits is not explored: a node that grants less is safe as well.

mod canonical;
mod client;
pub(crate) mod courses;
mod node;
mod words;

use crate::search::{Model, Step};

use self::{client::Client, node::Node};

/// Three processes lock.
const CLIENTS: usize = 3;

/// What can happen in a course. Times are in ticks.
#[derive(Clone, Debug)]
pub(crate) struct Sharing<const N: usize> {
    /// Whether each process reads; and its lease.
    pub(crate) clients: [(Role, u8); CLIENTS],
    /// The longest round.
    pub(crate) round: u8,
    /// Nodes lose their memory, as often as they like, but never all of them.
    pub(crate) losses: bool,
    /// What goes wrong on purpose.
    pub(crate) mutant: Option<Mutant>,
    server: node::Server,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Reads,
    Writes,
}

/// A deliberate fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// A reader counts the reply of a node that has the key of a writer.
    ReaderBesideWriter,
    /// A writer counts the reply of a node that has keys of readers.
    WriterBesideReaders,
    /// All readers of a node expire with the first of them.
    ExpireWithTheFirst,
    /// A release takes the other readers with it.
    ReleaseOfAll,
    /// The first section of a process that ends takes the keys of the others with it.
    ReleaseWithTheFirstSection,
    /// A reader's extension counts where another one has the key.
    ExtensionOfAnybody,
    /// A node that has lost its memory votes again at once.
    NoWait,
    /// It waits for what writers were granted, and for no readers.
    ReadersNotNoted,
}

impl Mutant {
    const ALL: [Self; 8] = [
        Self::ReaderBesideWriter,
        Self::WriterBesideReaders,
        Self::ExpireWithTheFirst,
        Self::ReleaseOfAll,
        Self::ReleaseWithTheFirstSection,
        Self::ExtensionOfAnybody,
        Self::NoWait,
        Self::ReadersNotNoted,
    ];
}

/// One moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State<const N: usize> {
    nodes: [Node; N],
    clients: [Client; CLIENTS],
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    Tick,
    Acquire { client: u8 },
    Extend { client: u8 },
    Join { client: u8 },
    Leave { client: u8 },
    Vote { client: u8, node: u8 },
    Unheard { client: u8, node: u8 },
    PutBack { client: u8, node: u8 },
    Release { client: u8 },
    Lose { node: u8 },
    Admit { node: u8 },
}

type Take<'a, const N: usize> = &'a mut dyn FnMut(Step<Move, State<N>>);

impl<const N: usize> Model for Sharing<N> {
    type State = State<N>;
    type Move = Move;

    fn starts(&self) -> Vec<State<N>> {
        vec![State {
            nodes: [Node::default(); N],
            clients: Default::default(),
        }]
    }

    fn steps(&self, state: &State<N>, take: &mut impl FnMut(Step<Move, State<N>>)) {
        let mut next = *state;
        for node in &mut next.nodes {
            node.tick(self.longest().max(self.round + 1));
        }
        for client in 0..CLIENTS {
            self.tick_client(&mut next, client);
        }
        take(Step::new(Move::Tick, next));
        for client in 0..CLIENTS {
            self.client(state, client, take);
        }
        if self.losses {
            for node in 0..N {
                self.node(state, node, take);
            }
        }
    }

    fn simple(&self, state: &State<N>) -> State<N> {
        let mut state = *state;
        self.forget_what_cannot_matter(&mut state);
        state
    }

    fn canonical(&self, state: &State<N>) -> State<N> {
        let mut state = self.simple(state);
        state.sort(self.clients[0] == self.clients[1]);
        state
    }
}

impl<const N: usize> Sharing<N> {
    fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    fn role(&self, client: usize) -> Role {
        self.clients[client].0
    }

    fn lease(&self, client: usize) -> u8 {
        self.clients[client].1
    }

    /// The longest lease that there is.
    fn longest(&self) -> u8 {
        let leases = self.clients.map(|(_, lease)| lease);
        leases.into_iter().max().unwrap_or(0)
    }
}
