//! What one lock asks for.

use std::{ops::RangeInclusive, time::Duration};

/// How many permits a lock can have. Each is a key, and each round of an acquisition asks for one of them.
pub(crate) const PERMITS: RangeInclusive<u32> = 1..=redlock_protocol::MOST_SLOTS;

/// A lease is for work in progress. What runs longer renews it.
pub(crate) const LONGEST_MAX_LEASE: Duration = Duration::from_secs(24 * 60 * 60);

/// Each renewal sends one request to every node: at this interval, one lock on three nodes sends
/// 300 requests a second, whatever its lease is. The bound does not grow with the lease, because
/// frequent renewals of a long lease have a use: if servers refuse `CLIENT TRACKING`, the holder
/// learns of a loss at the next renewal.
pub(crate) const SHORTEST_RENEWAL: Duration = Duration::from_millis(10);

/// Of the value beside a lock, in bytes. It goes to each node with each renewal.
pub(crate) const LONGEST_VALUE: usize = 256;

/// What an annotated function asks for: see [`SectionInfo::options`](crate::SectionInfo::options).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The lease; `None` for that of the node set.
    pub expire: Option<Duration>,
    /// How long a call waits for the lock; zero is one attempt.
    pub wait: Duration,
    /// Whether and how often the lease is renewed.
    pub renew: Renew,
    /// The longest time that renewals may keep the lock.
    pub max_hold: Option<Duration>,
    /// The shortest time that the nodes keep the lock; `None` for none.
    pub at_least: Option<Duration>,
    /// Whether it shares the lock with others that do.
    pub shared: bool,
    /// How many sections of the fleet can have it at a time; `None` for one, or if the arguments decide it.
    pub permits: Option<u32>,
    /// How many of the permits it has at a time; `None` for one, or if the arguments decide it.
    pub weight: Option<u32>,
    /// Whether it joins the lease of a section around it on the same key.
    pub reentrant: bool,
    /// Whether waiters of all processes are served in the order in which they came.
    pub fair: bool,
    /// Whether who has it is the leader of a fleet, which others observe.
    pub leader: bool,
}

/// Whether and how often a lease is renewed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Renew {
    /// It runs out.
    #[default]
    Never,
    /// Every third of the lease.
    Default,
    /// This often.
    Every(Duration),
}
