//! Whether a node's clock can be trusted with the expiry of keys.
//!
//! A node whose clock runs ahead drops keys early. Up to the guard band that does no harm. At each
//! extension a node says how much was left of the key, which shows by how much its clock has gained
//! on ours since the key was written. A node that gains more than the guard band within one lease
//! of one lock has broken the assumption that leases rest on: it has no vote until every key that it
//! may have dropped early has expired. The suspicion belongs to the lock that sees it: two locks
//! that see one step have seen one step.
//!
//! A clock that stays behind keeps keys for longer, which costs time only.

use std::time::Duration;

use crate::{rules::validity::LockParams, time::Instant};

/// By how much a node's clock has gained on ours within one lease of one lock, at the least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lead {
    /// Up to when the key was written last.
    before: Duration,
    /// When that was nothing.
    since: Option<Instant>,
}

impl Lead {
    /// Takes in by how much it has gained since the key was written last, and whether it has been
    /// written now. Returns the sum, if it is more than any lease can absorb.
    pub(crate) fn add(
        &mut self,
        gain: Duration,
        is_written: bool,
        params: &LockParams,
        now: Instant,
    ) -> Option<Duration> {
        let is_old = |since| now.since(since) > params.lease;
        if self.since.is_none_or(is_old) {
            *self = Self {
                before: Duration::ZERO,
                since: Some(now),
            };
        }
        let by = self.before + gain;
        if is_written {
            self.before = by;
        }
        (by > params.guard_band).then_some(by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> LockParams {
        LockParams::of(Duration::from_secs(6))
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(0).after(Duration::from_millis(millis))
    }

    const fn gain(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn one_step_within_the_guard_band_is_no_reason_for_suspicion() {
        let mut lead = Lead::default();
        assert_eq!(params().guard_band, gain(600));
        assert_eq!(lead.add(gain(600), true, &params(), at(2_000)), None);
        assert_eq!(lead.add(gain(0), true, &params(), at(4_000)), None);
    }

    #[test]
    fn gains_that_add_up_to_more_than_the_guard_band_within_a_lease_are() {
        let mut lead = Lead::default();
        assert_eq!(lead.add(gain(400), true, &params(), at(2_000)), None);
        assert_eq!(
            lead.add(gain(400), true, &params(), at(4_000)),
            Some(gain(800))
        );
    }

    #[test]
    fn what_is_seen_twice_is_gained_once() {
        let mut lead = Lead::default();
        assert_eq!(lead.add(gain(400), false, &params(), at(2_000)), None);
        assert_eq!(lead.add(gain(400), false, &params(), at(2_010)), None);
    }

    #[test]
    fn what_was_gained_more_than_a_lease_ago_is_forgotten() {
        let mut lead = Lead::default();
        assert_eq!(lead.add(gain(400), true, &params(), at(2_000)), None);
        assert_eq!(lead.add(gain(400), true, &params(), at(8_001)), None);
    }
}
