//! Everything the protocol can want or say.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    message::{ConnectionId, Fault, LeaseId, NodeId, Request, RequestId, Token},
    time::Instant,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Make a connection; answered by `Connected` or `Disconnected`.
    Connect {
        node: NodeId,
        connection: ConnectionId,
    },
    /// Give up the connection, or the attempt to make one. Not answered.
    Disconnect { node: NodeId },
    /// Run a script. Requests to one node are carried out in the order of their sends.
    Send {
        node: NodeId,
        request: RequestId,
        body: Request,
        /// The process that the request is meant for.
        server: Option<Arc<str>>,
        /// Send the script's text, because the node said that it does not know it.
        with_source: bool,
    },
    /// Tell the caller of this lease.
    Answer { lease: LeaseId, answer: Answer },
    /// The node's connection changed, for the eyes of operators.
    NodeChanged { node: NodeId, state: NodeState },
    /// Shutdown is over.
    Drained(Drained),
}

/// What a caller learns about its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The lock is held until `deadline`; `token` is larger than those of all earlier holders.
    Granted { deadline: Instant, token: Token },
    /// The lock was not acquired; the lease is forgotten.
    Refused(Refusal),
    /// The lease was renewed, by itself or on request.
    Extended { deadline: Instant },
    /// A requested extension found no quorum in time; the old deadline stands.
    NotExtended { votes: Vec<Vote> },
    /// The lease ended under the holder.
    Over(Loss),
    /// What became of a release.
    Released(Outcome),
}

/// Why the lock was not acquired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) cause: Cause,
    /// One per node; empty where no node was asked.
    pub(crate) votes: Vec<Vote>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Somebody else holds it. It can be free after `retry_after`, where that is known.
    Contended { retry_after: Option<Duration> },
    /// Too few nodes answered for a majority.
    NoQuorum,
    /// Enough nodes for a majority are connected, but may have lost their memory. It can be had
    /// after `ready_in`.
    Quarantined { ready_in: Duration },
    /// A majority granted, but so late that too little of the lease was left.
    TooSlow,
    /// The engine is shutting down.
    Stopped,
}

/// How a held lease ended before its holder let go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The key is gone, or somebody else's, on so many nodes that no majority carries it.
    Lost { votes: Vec<Vote> },
    /// The deadline passed.
    Expired { votes: Vec<Vote> },
    /// The engine was shut down.
    Stopped,
}

/// What one node said in the round that decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Vote {
    /// No answer when the verdict fell.
    Pending,
    /// Not asked, for the others have decided, or taken too long.
    NotAsked,
    /// The key is, or still is, ours.
    Ours,
    /// The key is somebody else's, for this long where known.
    Held { remaining: Option<Duration> },
    /// The key is no longer ours.
    NotOwner,
    /// No vote.
    Failed(Fault),
}

/// What became of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A majority still carried the key, and deleted it.
    Released,
    /// The lease had ended before.
    AlreadyExpired,
    /// Too few nodes answered to tell.
    Unknown,
}

/// What is known of a node's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeState {
    /// Connected; it votes.
    Up,
    /// Not connected, for this reason; it is tried again in the background.
    Down(Arc<str>),
    /// Connected, but it may have lost its memory, and does not vote until then.
    Quarantined(Instant),
    /// Connected, but its clock has run ahead by so much that it may have dropped locks early, and
    /// it does not vote until then.
    ClockAhead { by: Duration, until: Instant },
    /// It is the same server as another node, and must not vote twice.
    SameServer(NodeId),
    /// It may drop locks by this policy when memory runs out, and must not vote.
    Evicts(Arc<str>),
}

/// What was left when the shutdown ended; both zero when it was complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drained {
    /// Leases whose holder had not let go.
    pub(crate) held: usize,
    /// Releases that not every reachable node has confirmed.
    pub(crate) unconfirmed: usize,
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up => f.write_str("connected"),
            Self::Down(reason) => f.write_str(reason),
            Self::Quarantined(_) => f.write_str("may have lost its memory, and is quarantined"),
            Self::ClockAhead { by, .. } => {
                write!(f, "its clock has run {by:.1?} ahead, and it is set aside")
            }
            Self::SameServer(twin) => write!(f, "is the same server as node {}", twin.0),
            Self::Evicts(policy) => write!(
                f,
                "drops keys when memory runs out (maxmemory-policy {policy}); set it to noeviction"
            ),
        }
    }
}
