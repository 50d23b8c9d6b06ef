//! What the protocol is given when it is made.

use std::{fmt, time::Duration};

/// A node that owes this process this number of replies is busy. One worker alone makes no node busy: if its locks
/// asked a majority first, the servers would need 10 to 23 % less processor time for each, but its median wait
/// would be 1.3 to 1.5 times as long. With 64 workers, asking a majority first makes for 1.6 to 2 times as
/// many cycles a second.
pub const BUSY_FROM: usize = 2;

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

impl Settings {
    /// Those of a client that sets nothing but how long keys live.
    #[must_use]
    pub const fn of(max_ttl: Duration, default_ttl: Duration) -> Self {
        Self {
            silence_limit: Duration::from_secs(1),
            ping_interval: None,
            may_evict: false,
            max_ttl,
            default_ttl,
            assume_fresh: false,
            busy_from: BUSY_FROM,
            mixed_fleet: false,
        }
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env").finish_non_exhaustive()
    }
}
