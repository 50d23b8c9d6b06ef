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

use crate::time::{Instant, Span};

/// By how much a node's clock has gained on ours within one lease of one lock, at the least.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lead {
    /// When it was nothing, and what it was when the key was written last.
    before: Option<(Instant, Span)>,
}

impl Lead {
    /// Takes in by how much it has gained since the key was `written` last, and whether it has been
    /// written now. Returns the sum, if it is more than a lease with this guard band can absorb.
    pub(crate) fn add(
        &mut self,
        gain: Duration,
        is_written: bool,
        (lease, guard_band): (Duration, Duration),
        (written, now): (Instant, Instant),
    ) -> Option<Duration> {
        self.before.take_if(|before| now.since(before.0) > lease);
        let before = self.before.map_or(Span::ZERO, |before| before.1);
        let by = Duration::from(before) + gain;
        // Not written: the next look measures the same gain once more.
        if is_written && !gain.is_zero() {
            self.before.get_or_insert((written, Span::ZERO)).1 = by.into();
        }
        (by > guard_band).then_some(by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: (Duration, Duration) = (Duration::from_secs(6), gain(600));

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(0).after(Duration::from_millis(millis))
    }

    const fn gain(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn gains_that_add_up_to_more_than_the_guard_band_within_a_lease_are_reason_for_suspicion() {
        // What is gained from when to when, and whether it is new.
        let seen = |gains: &[(u64, bool, u64, u64)]| {
            let mut lead = Lead::default();
            let mut found = None;
            for &(gained, is_new, from, to) in gains {
                assert_eq!(found, None, "{gains:?}");
                found = lead.add(gain(gained), is_new, BOUNDS, (at(from), at(to)));
            }
            found
        };
        let one_within_the_band = [(600, true, 0, 2_000), (0, true, 2_000, 4_000)];
        assert_eq!(seen(&one_within_the_band), None);
        let two = [(400, true, 0, 2_000), (400, true, 2_000, 4_000)];
        assert_eq!(seen(&two), Some(gain(800)));
        let three = [
            (250, true, 0, 2_000),
            (250, true, 2_000, 4_000),
            (250, true, 4_000, 6_000),
        ];
        assert_eq!(seen(&three), Some(gain(750)));
        let one_seen_twice = [(400, false, 0, 2_000), (400, false, 0, 2_010)];
        assert_eq!(seen(&one_seen_twice), None);
        let one_a_lease_ago = [(400, true, 0, 2_000), (400, true, 6_000, 8_001)];
        assert_eq!(seen(&one_a_lease_ago), None);
    }
}
