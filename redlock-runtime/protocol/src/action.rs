//! Everything the protocol can want or say.

use std::{error, fmt, sync::Arc, time::Duration};

use crate::{
    message::{ConnectionId, NodeId, Rejection, Request, RequestId, SectionId},
    rules::token::Token,
    time::Instant,
    unreachable::Why,
};

/// One thing for the driver to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make a connection; answered by `Connected` or `Disconnected`.
    Connect {
        /// The node.
        node: NodeId,
        /// What to call it.
        connection: ConnectionId,
    },
    /// Hand in all that has come from the node by now; answered by `Silent` after that. Something is
    /// overdue, and it is open whether the node is late or its client.
    Listen {
        /// The node.
        node: NodeId,
        /// The connection, or the attempt to make one.
        connection: ConnectionId,
    },
    /// Give up the connection, or the attempt to make one. Not answered.
    Disconnect {
        /// The node.
        node: NodeId,
    },
    /// Send a request. Requests to one node are carried out in the order of these actions. One that
    /// needs no vote is sent again, with the text of its script, if the node does not know the script:
    /// late as it comes then, it is behind all that it has to follow.
    Send(Order),
    /// Tell the caller of this section.
    Answer {
        /// The section.
        section: SectionId,
        /// What became of what it asked for.
        answer: Answer,
    },
    /// The state of a node changed, for the eyes of operators.
    NodeChanged {
        /// The node.
        node: NodeId,
        /// Its state now.
        state: NodeState,
    },
    /// Shutdown is over. Complete if both numbers are zero.
    Drained(ShutdownError),
}

/// A request on its way to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The node.
    pub node: NodeId,
    /// What the reply must name.
    pub request: RequestId,
    /// What is asked.
    pub body: Request,
}

/// What a caller learns about its section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The lock is held.
    Granted {
        /// Until when the lease may be trusted.
        deadline: Instant,
        /// The fencing token of this section.
        token: Token,
        /// How often the nodes were asked for the lock on its behalf: none if it was handed over within
        /// a turn. Of several keys, for all of them together; of permits, for the one that was given.
        attempts: u32,
    },
    /// The lock was not acquired; the section is forgotten.
    Refused(Refusal),
    /// The lease was renewed, by itself or on request.
    Extended {
        /// Until when the lease may be trusted now.
        deadline: Instant,
    },
    /// A requested extension found no majority in time; the old deadline stands.
    NotExtended {
        /// What each node said.
        verdicts: Vec<Verdict>,
    },
    /// The lease ended under the holder.
    Over(Loss),
    /// What became of a release.
    Released(Release),
}

/// Why the lock was not acquired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The cause.
    pub cause: Cause,
    /// What each node said; empty if no node was asked.
    pub verdicts: Vec<Verdict>,
    /// Of a section with several keys, the one that could not be had; `None` if there is only one.
    pub key: Option<Arc<str>>,
    /// How often the nodes were asked for the lock on its behalf.
    pub attempts: u32,
}

/// The cause of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Another owner holds it. It can be free after `retry_after`, if that is known.
    Contended {
        /// The rest of the holder's key TTL, or of its lease if it is a task of this process.
        retry_after: Option<Duration>,
    },
    /// Too few nodes answered in time for a majority, or a majority did not agree on a fencing token.
    NoQuorum,
    /// Enough nodes for a majority are connected, but too many of them have lost their memory.
    Quarantined {
        /// When enough of them vote again, at the latest.
        ready_in: Duration,
    },
    /// The engine is shutting down.
    Stopped,
}

/// How a held lease ended before its holder let go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No majority of nodes is known to have the key any more.
    Lost {
        /// What each node said last.
        verdicts: Vec<Verdict>,
    },
    /// The deadline passed.
    Expired {
        /// What each node said in the last round that did not extend the lease.
        verdicts: Vec<Verdict>,
    },
    /// The engine was shut down.
    Stopped,
}

/// What one node replied about a key.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The node has our key.
    Ours,
    /// The node has the key of another owner.
    HeldByAnother {
        /// How long that key still lives; `None` if it never expires.
        remaining: Option<Duration>,
    },
    /// The node is not known to have our key: it never had it, the key is gone, or it belongs to another owner.
    NoLongerOurs,
    /// The node had not answered when the others decided.
    NoAnswerYet,
    /// The node was not asked: the others decided first.
    NotAsked,
    /// The node did not answer within the node timeout.
    TimedOut,
    /// The node has lost its memory, and does not vote until all that it may have forgotten has
    /// expired.
    Quarantined {
        /// Why it is believed to have lost its memory.
        reason: QuarantineReason,
        /// When it votes again, at the latest.
        remaining: Duration,
    },
    /// The node's clock has run ahead of ours by so much that it may drop locks early.
    ClockAhead {
        /// By how much, within one lease.
        by: Duration,
    },
    /// There is no connection to the node.
    Unreachable {
        /// Why the last attempt to make one failed.
        reason: Arc<str>,
    },
    /// The connection broke before the answer came.
    Disconnected {
        /// How it broke.
        reason: Arc<str>,
    },
    /// The server answered with an error.
    Refused {
        /// The server's error message.
        message: Arc<str>,
    },
    /// The server's answer does not fit the request.
    Garbled {
        /// The answer, shortened.
        answer: Arc<str>,
    },
}

/// Why a node is believed to have lost its memory.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuarantineReason {
    /// The server's process is not the one that was admitted to the vote.
    Restarted,
    /// The library's data was on the server during this connection, and is gone.
    Flushed,
    /// The server has no data of the library: it is new, or it has lost all its data.
    NeverSeenBefore,
}

/// What became of a release.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The lock was held until now: a majority of nodes still had its key when the section had
    /// ended.
    Released,
    /// The lease had ended before, or a majority of nodes no longer had the key: another client may
    /// have held the lock in the meantime.
    AlreadyExpired,
    /// Too few nodes answered, or the node set was shut down. The library releases the other keys when
    /// their nodes can be reached again; until then they may expire.
    Unknown,
    /// The section had joined the lease of the one around it, which still holds the lock.
    Joined,
}

/// The state of a node.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// Connected; it votes.
    Up,
    /// Not connected; it is tried again in the background.
    Down {
        /// Why the last attempt failed, or how the connection broke.
        reason: Why,
    },
    /// Connected, but it has lost its memory, and does not vote until all that it may have forgotten
    /// has expired.
    Quarantined {
        /// Why it is believed to have lost its memory.
        reason: QuarantineReason,
        /// When it votes again, at the latest.
        until: Instant,
    },
    /// Connected, but its clock has run ahead by so much that it may have dropped locks early.
    ClockAhead {
        /// By how much, within one lease.
        by: Duration,
        /// When it votes again.
        until: Instant,
    },
    /// Connected, but it answers with an error: votes, releases, or what it takes to let it vote. It votes again once
    /// it has answered a vote, or if none was asked of it for a while and it answers a probe.
    Refuses {
        /// What keeps it from voting.
        reason: Rejection,
        /// The server's own words.
        message: Arc<str>,
    },
    /// It is the same server as another node, and must not vote twice.
    SameServer {
        /// The other node.
        twin: NodeId,
    },
    /// It may drop locks when memory runs out, and must not vote.
    Evicts {
        /// Its `maxmemory-policy`.
        policy: Arc<str>,
    },
    /// The fleet that uses it allows another longest lease than this process does, so that the two
    /// would not agree on how long a node that lost its memory must stay out.
    OtherMaxLease {
        /// The longest key TTL of the fleet.
        theirs: Duration,
        /// The longest key TTL of this process.
        ours: Duration,
    },
    /// Processes of another release use it, which keeps its data in another format.
    OtherFormat {
        /// The format that is noted there.
        theirs: u64,
        /// That of this release.
        ours: u64,
    },
}

/// What was left when a shutdown ended; both zero if it was complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownError {
    /// Sections whose holder had not let go when the time was up, and was cut off.
    pub held: usize,
    /// Releases that not every reachable node has confirmed.
    pub unconfirmed: usize,
}

impl Refusal {
    /// Nothing is known of the owner that has the lock.
    pub(crate) const CONTENDED: Self =
        Self::without_verdicts(Cause::Contended { retry_after: None });

    /// For this cause, and no node was asked.
    #[must_use]
    pub const fn without_verdicts(cause: Cause) -> Self {
        Self::new(cause, Vec::new())
    }

    pub(crate) const fn new(cause: Cause, verdicts: Vec<Verdict>) -> Self {
        Self {
            cause,
            verdicts,
            key: None,
            attempts: 0,
        }
    }

    /// Too few nodes could vote.
    pub(crate) const fn lacks_quorum(&self) -> bool {
        matches!(self.cause, Cause::NoQuorum | Cause::Quarantined { .. })
    }
}

impl Verdict {
    /// The node gave no vote at all, neither a yes nor a no.
    pub(crate) const fn is_failure(&self) -> bool {
        let is_vote = matches!(
            self,
            Self::Ours | Self::HeldByAnother { .. } | Self::NoLongerOurs
        );
        !self.is_open() && !is_vote
    }

    pub(crate) const fn is_open(&self) -> bool {
        matches!(self, Self::NoAnswerYet | Self::NotAsked)
    }
}

impl fmt::Display for QuarantineReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Restarted => "the server was restarted",
            Self::Flushed => "its data was flushed",
            Self::NeverSeenBefore => "it is new or has lost all its data",
        })
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up => f.write_str("connected"),
            Self::Down { reason } => reason.fmt(f),
            Self::Quarantined { reason, .. } => write!(
                f,
                "does not vote until all locks that it may have forgotten have expired: {reason}"
            ),
            Self::ClockAhead { by, .. } => write!(
                f,
                "does not vote for now: its clock has run {by:.1?} ahead within one lease"
            ),
            Self::Refuses { message, .. } => write!(f, "refuses what the library needs: {message}"),
            Self::SameServer { twin } => write!(f, "is the same server as node {}", twin.0),
            Self::Evicts { policy } => write!(
                f,
                "drops keys when memory runs out (maxmemory-policy {policy}); set it to noeviction"
            ),
            Self::OtherMaxLease { theirs, ours } => write!(
                f,
                "is used with another `max_lease` or guard band: its keys live for up to \
                 {theirs:.1?}, and those of this process for up to {ours:.1?}; all processes of a \
                 fleet need the same"
            ),
            Self::OtherFormat { theirs, ours } => write!(
                f,
                "is used by another release of the library: its data has format {theirs}, and this \
                 process knows {ours}; let all processes have the same release"
            ),
        }
    }
}

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        write!(
            f,
            "{} section{} still held and {} release{} not confirmed when the time was up",
            self.held,
            plural(self.held),
            self.unconfirmed,
            plural(self.unconfirmed)
        )
    }
}

impl error::Error for ShutdownError {}
