//! All arithmetic on leases: how long a holder may believe, how long a node keeps the key.

use std::time::Duration;

use crate::{
    message::{Member, Mode},
    time::{Instant, counted},
};

/// Extra key TTL that absorbs clock steps when none is configured: NTP daemons step clocks by
/// up to 128 ms without asking, so half a second covers several such steps. It costs time only
/// after a crash, because a release is immediate.
const GUARD_BAND_FLOOR: Duration = Duration::from_millis(500);

/// A node gets this long to answer even under short leases, so that one slow packet does not
/// turn a healthy node into a lost vote.
const NODE_TIMEOUT_FLOOR: Duration = Duration::from_millis(50);

/// No round counts a vote later than this after its first request, whatever timeouts say. A node that
/// loses its memory stays out for longer, so no round that wins can have counted a vote that was
/// forgotten before the others were read.
pub const LONGEST_ROUND: Duration = Duration::from_secs(1);

/// Even under long leases a section does not begin with an older round, so that its token is above
/// those of other processes' sections that ended before.
const LONGEST_FRESHNESS: Duration = Duration::from_millis(50);

/// The length of a lease, and how much longer than that and the drift a node keeps the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseParams {
    /// See [`LockParams::lease`].
    pub length: Duration,
    /// See [`LockParams::guard_band`].
    pub guard_band: Duration,
}

/// What one lock asks of the protocol, checked and complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockParams {
    /// Whether the section shares the key with others that share it.
    pub mode: Mode,
    /// How long the holder may trust the lock, counted from before the first send.
    pub lease: Duration,
    /// How much longer than the lease a node keeps the key, on top of the drift.
    pub guard_band: Duration,
    /// How long one round waits for nodes that do not answer.
    pub node_timeout: Duration,
    /// A lock is not granted with less than this of its lease: rounds are over before.
    pub min_validity: Duration,
    /// How long the caller is willing to wait for the lock; zero is one attempt.
    pub wait: Duration,
    /// Time between renewals; `None` lets the lease run out.
    pub renew: Option<Duration>,
    /// The longest time from acquisition that renewals may keep the lock.
    pub max_hold: Option<Duration>,
    /// The shortest time from the grant that the nodes keep the key, or the slot, though the holder lets go
    /// sooner. Over with the lease at the latest, and nothing to those that share the key.
    pub at_least: Duration,
    /// How many may have the lock at a time, each with a slot of its own; zero for a lock without permits.
    pub permits: u32,
    /// Waiters of all processes are served in the order in which they came.
    pub is_fair: bool,
}

impl LockParams {
    /// When a lease that counts from `start` ends, whichever rule ends it first.
    #[must_use]
    pub fn deadline(&self, start: Instant, acquired: Instant) -> Instant {
        // From before the first request: a slow reply must not lengthen what the holder believes (guarantees, promise
        // 1).
        let end = start.after(self.lease);
        match self.max_hold {
            Some(most) => end.min(acquired.after(most)),
            None => end,
        }
    }

    /// What is asked for of one of several locks, where this is asked for of all.
    #[must_use]
    pub fn of_member(self, member: &Member) -> Self {
        Self {
            mode: member.mode,
            permits: match member.is_gate() {
                true => 0,
                false => member.permits,
            },
            ..self
        }
    }

    /// The `PX` argument. Longer than the lease by the drift of two clocks and by the guard
    /// band, so that the last holder has stopped before the first node forgets.
    #[must_use]
    pub fn key_ttl(&self) -> Duration {
        key_ttl(self.lease, self.guard_band)
    }

    /// For how much longer than it needs a key lives that is written while callers of this process wait. It is read again
    /// after each write, and others who share it are told, so sections that follow each other write it seldom.
    pub(crate) fn spare(&self) -> Duration {
        self.lease / 20
    }

    /// How long a round may take. Never so long that the lease could not be worth having, and never
    /// longer than [`LONGEST_ROUND`].
    #[must_use]
    pub fn round_timeout(&self) -> Duration {
        self.node_timeout
            .min(self.lease.saturating_sub(self.min_validity))
            .min(LONGEST_ROUND)
    }

    /// How long a round stays young enough for a section to begin with its lease and its token:
    /// most of the lease should be left.
    pub(crate) fn freshness(&self) -> Duration {
        // A section of a short lease must not lose much of it to the sections before.
        LONGEST_FRESHNESS.min(self.lease / 20)
    }
}

/// How long a node keeps a key, in whole milliseconds: clients compare what nodes have noted of it.
#[must_use]
pub fn key_ttl(lease: Duration, guard_band: Duration) -> Duration {
    // The lease first ends for the holder, then the key at the node, whichever of the two clocks is fast: promise 2
    // of the guarantees. A clock that steps eats the guard band.
    counted(lease + drift(lease) + guard_band)
}

/// What two clocks may differ by over one lease: 1 % of it, and 2 ms for the rounding of
/// expiry to whole milliseconds at the node and at the client.
#[must_use]
pub const fn drift(lease: Duration) -> Duration {
    Duration::from_nanos(lease.as_nanos() as u64 / 100 + 2_000_000)
}

/// How long a node must keep a key so that it lasts for `span` on the client's clock.
#[must_use]
pub(crate) fn outlasting(span: Duration) -> Duration {
    span + drift(span)
}

/// The guard band where none was configured.
#[must_use]
pub fn default_guard_band(lease: Duration) -> Duration {
    GUARD_BAND_FLOOR.max(lease / 10)
}

/// The node timeout where none was configured: far below the lease.
#[must_use]
pub fn default_node_timeout(lease: Duration) -> Duration {
    NODE_TIMEOUT_FLOOR.max(lease / 20)
}

/// A lock with less than a tenth of its lease left is not worth having.
#[must_use]
pub fn default_min_validity(lease: Duration) -> Duration {
    lease / 10
}

/// Two tries before the deadline.
#[must_use]
pub const fn default_renewal(lease: Duration) -> Duration {
    match lease.checked_div(3) {
        Some(third) => third,
        None => lease,
    }
}

/// Whether a lease is long enough to outlast the drift it must be shortened by.
#[must_use]
pub const fn outlasts_drift(lease: Duration) -> bool {
    lease.as_nanos() > drift(lease).as_nanos()
}

impl LockParams {
    /// What a lock has that names nothing but its lease.
    #[must_use]
    pub fn of(lease: Duration) -> Self {
        Self {
            mode: Mode::Exclusive,
            lease,
            guard_band: default_guard_band(lease),
            node_timeout: default_node_timeout(lease),
            min_validity: default_min_validity(lease),
            wait: Duration::ZERO,
            renew: None,
            max_hold: None,
            at_least: Duration::ZERO,
            permits: 0,
            is_fair: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_forgets_only_after_the_holder_stopped_even_with_clocks_half_a_percent_apart() {
        for millis in [3, 10, 100, 1_000, 5_000, 60_000, 86_400_000] {
            let params = LockParams::of(Duration::from_millis(millis));
            // Theorem M of the design: D(1 + rho) <= PX(1 - rho) - guard, rho = 0.5 %.
            let slowest_holder = params.lease.as_nanos() * 1_005;
            let fastest_node = params.key_ttl().as_nanos() * 995;
            assert!(
                slowest_holder + params.guard_band.as_nanos() * 990 <= fastest_node,
                "{millis} ms"
            );
        }
    }

    #[test]
    fn max_hold_ends_a_lease_that_renewals_would_carry_on() {
        let start = Instant::from_nanos(0);
        let mut params = LockParams::of(Duration::from_secs(5));
        params.max_hold = Some(Duration::from_secs(7));
        let renewed = start.after(Duration::from_secs(4));
        assert_eq!(
            params.deadline(renewed, start),
            start.after(Duration::from_secs(7))
        );
    }

    #[test]
    fn a_round_ends_while_the_lease_is_still_worth_having() {
        let params = LockParams::of(Duration::from_millis(20));
        assert!(params.round_timeout() + params.min_validity <= params.lease);
    }
}
