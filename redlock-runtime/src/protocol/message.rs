//! What one node is asked, and what it can answer.

use std::{sync::Arc, time::Duration};

/// A configured node, by its position in the node set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeId(pub(crate) usize);

/// One acquisition from the caller's side, from the question to the release. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LeaseId(pub(crate) u64);

/// One attempt of a lease to get the lock. Never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AttemptId(pub(crate) u64);

/// One request to one node. Never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestId(pub(crate) u64);

/// One connection to one node, or the attempt to make it. Never reused, so that news of a
/// connection that was given up cannot be taken for news of its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// The random value under the lock key; a new one for every attempt, but for one that is handed the
/// lock by another lease of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner(pub(crate) u128);

/// A number that grows with every acquisition of a key. Zero is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Token(pub(crate) u64);

/// What a node tells of itself when a connection is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Identifies the server's process; `None` where it does not tell.
    pub(crate) server: Option<Arc<str>>,
    /// How long it says that it has been running.
    pub(crate) uptime: Option<Duration>,
    /// It writes every change to disk before it answers, so it forgets nothing in a crash.
    pub(crate) is_durable: bool,
    /// It tells of changes to keys that were read.
    pub(crate) tells_changes: bool,
    /// The policy by which it drops keys when memory runs out; `None` if it keeps them.
    pub(crate) evicts: Option<Arc<str>>,
}

/// One script run on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// May the server's process vote? If it is not known to hold all that it ever granted, it is
    /// quarantined, for this long from the first time it is asked. Once that is over it is
    /// admitted with a floor below which its counters must not start again.
    Admit {
        quarantine: Duration,
        /// There is no need for a quarantine, unless keys have been flushed or swapped away since
        /// the server's start. That it says at the same moment, so that nothing comes between.
        unless_flushed: bool,
        is_durable: bool,
        floor: Option<Token>,
    },
    /// Which process is it? It is told all scripts again.
    Identify,
    /// The highest of its counters.
    Top,
    /// Set the key to the owner for `ttl`, unless there is one, and raise its counter: to the
    /// proposal, or by one if it is there already. If that is refused and the client `waits`, leave
    /// a note for whoever hands the lock over inside a process.
    Acquire {
        key: Arc<str>,
        owner: Owner,
        ttl: Duration,
        proposal: Token,
        /// The key may carry the owner already, because the lock is handed over inside a process.
        /// Then it stays as it is if it lives for `ttl`, and else is made to live for this much
        /// longer, so that the next hand-overs need not write it: that would wake all who listen. It
        /// is never made to live for less, since a request may come late.
        handed_over: Option<Duration>,
        waits: bool,
    },
    /// Raise the counter to the token, if the key still carries the owner.
    Confirm {
        key: Arc<str>,
        owner: Owner,
        token: Token,
    },
    /// Give the key `ttl` from now, if it still carries the owner.
    Extend {
        key: Arc<str>,
        owner: Owner,
        ttl: Duration,
    },
    /// Does the key carry the owner, or any? And tell when that changes.
    Watch { key: Arc<str>, owner: Option<Owner> },
    /// Delete the key, if it still carries the owner; in any case let the counter catch up with
    /// this one, so that counters that differ agree again.
    Release {
        key: Arc<str>,
        owner: Owner,
        catch_up: Token,
    },
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Admit: it may vote.
    Admitted,
    /// Admit: not before this time has passed.
    Quarantined { remaining: Duration },
    /// Admit: the quarantine is over, and a floor is wanted.
    Served,
    /// Identify: the process, where the server tells.
    Identity { server: Option<Arc<str>> },
    /// Top: its highest counter.
    Top { counter: Token },
    /// Acquire, extend: the process that holds the data is not the one that was admitted.
    NotAdmitted,
    /// Acquire: the key is ours, and its counter stands here now.
    Granted {
        counter: Token,
        /// The key carried the owner already.
        was_ours: bool,
        /// Somebody was refused a moment ago, and waits.
        awaited: bool,
    },
    /// Acquire: the key exists; its remaining time, `None` if it never expires.
    Held { remaining: Option<Duration> },
    /// Confirm: the key is ours, and its counter is no lower than the token.
    Confirmed,
    /// Watch: the key is ours.
    Ours,
    /// Extend: the key is ours for the new time; this was left of the one before, `None` if it
    /// would never have expired.
    Extended { remaining: Option<Duration> },
    /// Release: the key was ours and is gone.
    Deleted,
    /// Watch: there is no such key.
    Free,
    /// Watch: the key carries another owner; `None` if that is no client of ours.
    Taken { owner: Option<Owner> },
    /// Confirm, extend, release: the key is gone or carries another owner.
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
    /// It may have forgotten locks, and does not vote for this long.
    Quarantined(Duration),
    /// Its clock has run ahead of ours by so much that it may drop locks too early.
    ClockAhead(Duration),
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
