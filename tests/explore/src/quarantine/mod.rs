//! Which node may vote again when: two clients must never hold the lock at the same time.
//!
//! Time is discrete, and one key is enough. A client trusts its lease for as long as it wished, from
//! before its first request. A node that has lost its memory votes again as the protocol decides:
//! its loss is noted, other nodes are read later than the longest round after that, and the longest
//! key TTL that enough of them have granted is waited for. Requests and replies may be late or lost,
//! nodes lose their memory or go back to a snapshot, and the clients that let them in again may read
//! one node now and another one much later.

mod canonical;
mod client;
pub(crate) mod courses;
mod loss;
mod node;
mod reader;

use crate::{
    search::{Model, Step},
    trial::mutants,
};

use node::{Node, Standing};

/// Two clients lock.
const CLIENTS: usize = 2;

/// The most that let nodes in again and need time to read.
const READERS: usize = 2;

/// As often as they like.
pub(crate) const ANY_NUMBER: u8 = u8::MAX;

/// What can happen in a course. Times are in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quarantine<const N: usize> {
    /// The two leases that there are; the longer one is the longest that the fleet may ask for.
    pub(crate) leases: [u8; 2],
    /// The longest round.
    pub(crate) round: u8,
    /// The second client uses the shorter lease only.
    pub(crate) unequal: bool,
    /// Clients that read one node after another, beside those that read all at once.
    pub(crate) readers: usize,
    /// How often nodes lose all they know.
    pub(crate) losses: u8,
    /// How many snapshots are written, from which nodes may be restarted.
    pub(crate) snapshots: u8,
    pub(crate) last_marker: LastMarker,
    /// What goes wrong on purpose.
    pub(crate) mutant: Option<Mutant>,
}

/// Whether the last marker of all may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastMarker {
    /// While another loss stands noted that was found beside a marker, or beside such a note: at any time something
    /// tells that this is no first start.
    GoesOnceNoted,
    /// At any time. Then only the shorter lease, which is the default one, is safe.
    Goes,
}

mutants! {
    /// A deliberate fault.
    ///
    /// No course can show that putting a key back does not raise the longest TTL: such a key carries no vote, and the
    /// extension that counts it raises the longest TTL by itself.
    Mutant {
        /// A node votes again at once.
        NoWait,
        /// Other nodes are read as soon as the loss is noted.
        ReadAtOnce,
        /// They are read when exactly the longest round has passed, not later.
        ReadOneRoundAfter,
        /// What was read before the loss was noted counts.
        ReadBefore,
        /// One node less than needed is read.
        TooFewRead,
        /// Nodes count that have lost their memory, too.
        ForgetfulRead,
        /// An extension does not raise the longest TTL.
        ExtensionNotNoted,
        /// An extension makes a key live shorter.
        ExtensionShortens,
        /// The longest TTL is forgotten a tick too soon.
        LongestForgotten,
        /// A node is admitted by what was found out about an earlier loss.
        LossNotCompared,
        /// A loss that a snapshot brings back counts as noted.
        OldLossCounts,
        /// A round counts votes for longer.
        RoundNotBounded,
        /// A client that reaches no other node takes the loss for a first start.
        FirstStartOfOne,
        /// A client takes it for one although a single node does not reply.
        FirstStartOfMost,
        /// A client takes it for one although a loss was found beside a marker.
        FirstStartBesideMarker,
        /// A marker of another process, which is deleted when the loss is noted, counts for nothing.
        OwnMarkerForgotten,
        /// All nodes need not be new at one moment.
        FirstStartInOnePass,
        /// That other nodes have a marker is not noted after the loss was.
        LaterMarkerNotNoted,
        /// A loss that was found beside a marker tells of none once the marker has gone.
        NoteForgotten,
        /// A process that was flushed has run for long, and so proves that it has forgotten nothing.
        UptimeOfTheFlushed,
        /// The marker of a database counts that was swapped in.
        SwappedMarkerCounts,
    }
}

/// One moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State<const N: usize> {
    nodes: [Node; N],
    clients: [client::Client; CLIENTS],
    readers: [reader::Reader; READERS],
    losses: u8,
    snapshots: u8,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    Tick,
    Acquire { client: usize, ttl: u8 },
    Extend { client: usize, ttl: u8 },
    Vote { client: usize, node: usize },
    Unheard { client: usize, node: usize },
    PutBack { client: usize, node: usize },
    Release { client: usize },
    Lose { node: usize },
    Save { node: usize },
    Restore { node: usize },
    Note { node: usize },
    // By a client that reaches no other node.
    NoteAlone { node: usize },
    // A client that knows another node's marker adds that to the loss.
    NoteBeside { node: usize },
    Admit { node: usize },
    // By the first start.
    AdmitFirst { node: usize },
    // A reader looks after a node that is to be let in.
    Look { reader: usize, node: usize },
    Read { reader: usize, node: usize },
    AdmitBy { reader: usize, node: usize },
    // The reader begins anew.
    Forget { reader: usize },
}

type Take<'a, const N: usize> = &'a mut dyn FnMut(Step<Move, State<N>>);

impl<const N: usize> Model for Quarantine<N> {
    type State = State<N>;
    type Move = Move;

    /// All nodes vote, or all are new.
    fn starts(&self) -> Vec<State<N>> {
        let all = |standing| State {
            nodes: [Node::new(standing); N],
            clients: Default::default(),
            readers: Default::default(),
            losses: 0,
            snapshots: 0,
        };
        vec![all(Standing::Votes), all(Standing::Empty)]
    }

    fn steps(&self, state: &State<N>, take: &mut impl FnMut(Step<Move, State<N>>)) {
        take(Step::change(state, Move::Tick, |next| self.tick(next)));
        for client in 0..CLIENTS {
            self.client(state, client, take);
        }
        for node in 0..N {
            self.node(state, node, take);
        }
        for reader in 0..self.readers {
            self.reader(state, reader, take);
        }
    }

    fn simple(&self, state: &State<N>) -> State<N> {
        let mut state = *state;
        self.forget_what_cannot_matter(&mut state);
        state
    }

    fn canonical(&self, state: &State<N>) -> State<N> {
        let mut state = self.simple(state);
        state.sort(!self.unequal, self.readers == READERS);
        state
    }
}

impl<const N: usize> Quarantine<N> {
    fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// The longest key TTL that the fleet may ask for.
    const fn longest(&self) -> u8 {
        self.leases[1]
    }

    fn tick(&self, state: &mut State<N>) {
        for node in &mut state.nodes {
            node.tick(self.longest().max(self.round + 1));
        }
        for client in 0..CLIENTS {
            self.tick_client(state, client);
        }
    }
}
