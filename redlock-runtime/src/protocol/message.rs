//! What one node is asked, and what it can answer.

use std::{sync::Arc, time::Duration};

/// A configured node, by its position in the node set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeId(pub(crate) usize);

/// One acquisition from the caller's side, from the question to the release. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LeaseId(pub(crate) u64);

/// One request to one node. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestId(pub(crate) u64);

/// One connection to one node, or the attempt to make it. Never reused, so that news of a
/// connection that was given up cannot be taken for news of its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// The random value under the lock key; a new one for every attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner(pub(crate) u128);

/// One script run on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Set the key to the owner for `ttl`, unless it exists.
    Acquire {
        key: Arc<str>,
        owner: Owner,
        ttl: Duration,
    },
    /// Give the key `ttl` from now, if it still carries the owner.
    Extend {
        key: Arc<str>,
        owner: Owner,
        ttl: Duration,
    },
    /// Delete the key, if it still carries the owner.
    Release { key: Arc<str>, owner: Owner },
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Acquire: the key is ours.
    Granted,
    /// Acquire: the key exists; its remaining time, `None` if it never expires.
    Held { remaining: Option<Duration> },
    /// Extend: the key is ours for the new time.
    Extended,
    /// Release: the key was ours and is gone.
    Deleted,
    /// Extend, release: the key is gone or carries another owner.
    NotOwner,
    /// The node does not know the script (its script cache was flushed); nothing was done.
    NoScript,
    /// The node answered with an error, or with something that is no answer; what it did is
    /// known only for an error.
    Failed(Fault),
}

/// Why a node gave no vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There is no connection; the reason is the last failure to make one.
    Unreachable(Arc<str>),
    /// The connection broke before the answer came.
    Disconnected(Arc<str>),
    /// No answer within the node timeout.
    TimedOut,
    /// The server refused with an error reply.
    Refused(Arc<str>),
    /// The reply is not one the script can give.
    Garbled(Arc<str>),
}
