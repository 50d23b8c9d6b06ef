//! What the protocol is given when it is made.

use std::{fmt, time::Duration};

/// What the protocol cannot know by itself, as functions of the driver.
pub struct Env {
    /// Random numbers, never the same twice.
    pub random: Box<dyn FnMut() -> u128 + Send>,
    /// Microseconds since 1970 on the wall clock. No rule relies on it: it only makes nodes likely to
    /// agree on a fencing token.
    pub wall_micros: Box<dyn FnMut() -> u64 + Send>,
}

/// What holds for all locks of one node set.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// A connection must be made within this time, and a connected node that owes an answer and gives
    /// none for as long is disconnected.
    pub silence_limit: Duration,
    /// A node of which nothing is asked for this long is asked whether it votes; `None` for never.
    pub ping_interval: Option<Duration>,
    /// Whether a node may vote that drops keys when memory runs out.
    pub may_evict: bool,
    /// The longest key TTL that the fleet may ask for: the key TTL of its longest lease. Equal for
    /// all clients of the nodes, and made by `key_ttl`, so that it is what nodes make of it.
    pub max_ttl: Duration,
    /// How long new nodes stay out if all of them are new: the key TTL of the default lease.
    pub default_ttl: Duration,
    /// Lets a node vote for this client at once that has lost its memory. For development and tests.
    pub assume_fresh: bool,
    /// A node that owes this process this number of replies is busy. While a majority of the nodes is, a first
    /// attempt asks no more of them than a majority at first.
    pub busy_from: usize,
    /// Clients of other libraries use the same keys, and take no place in the queue: every section
    /// has a turn of its own, after which the process stands back for a random time.
    pub mixed_fleet: bool,
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env").finish_non_exhaustive()
    }
}
