//! How long to pause before the next attempt.

use std::time::Duration;

use crate::action::{Cause, Refusal};

/// The pause after the first lost attempt; doubled with every further one.
const FIRST_PAUSE: Duration = Duration::from_millis(4);

/// The longest pause while another owner holds the lock: how long it may stand free unnoticed.
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// The longest pause while no majority can vote. A node that votes again ends it.
const LONGEST_OUTAGE_PAUSE: Duration = Duration::from_secs(1);

/// A node drops an expired key on its own clock; asking so much later finds it gone.
const AFTER_EXPIRY: Duration = Duration::from_millis(1);

/// The longest pause after a refusal. Where a majority could be asked and failed, no admission ends the
/// pause, so it is in proportion to what an attempt takes.
pub(crate) fn longest(refusal: &Refusal, round_timeout: Duration, can_ask: bool) -> Duration {
    match (refusal.lacks_quorum(), can_ask) {
        (false, _) => LONGEST_PAUSE,
        (true, true) => (2 * round_timeout).clamp(LONGEST_PAUSE, LONGEST_OUTAGE_PAUSE),
        (true, false) => LONGEST_OUTAGE_PAUSE,
    }
}

/// How long the front waiter pauses: longer each time and never twice the same, so that processes
/// that collided do not collide again, but not beyond the moment at which the present holder's key
/// expires. A waiter that a node notifies when the lock is free asks seldom.
pub(crate) fn pause(
    lost_attempts: u32,
    refusal: &Refusal,
    bound: Duration,
    is_notified: bool,
    random: u128,
) -> Duration {
    let longest = if is_notified {
        bound
    } else {
        let doublings = lost_attempts.saturating_sub(1).min(10);
        FIRST_PAUSE.saturating_mul(1 << doublings).min(bound)
    };
    let pause = longest / 2 + jitter(longest / 2, random);
    until_expiry(refusal).map_or(pause, |expiry| pause.min(expiry))
}

/// How long until the present holder's keys have expired, if that is known.
pub(crate) fn until_expiry(refusal: &Refusal) -> Option<Duration> {
    match refusal.cause {
        Cause::Contended { retry_after } => {
            retry_after.map(|expiry| expiry.saturating_add(AFTER_EXPIRY))
        }
        _ => None,
    }
}

/// A span from zero up to `span`, as even as milliseconds need it.
pub(crate) fn jitter(span: Duration, random: u128) -> Duration {
    span.mul_f64(f64::from(random as u32) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(cause: Cause) -> Refusal {
        Refusal::without_verdicts(cause)
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let held = refusal(Cause::Contended { retry_after: None });
        let (bound, most) = (LONGEST_PAUSE, u128::MAX);
        assert_eq!(pause(1, &held, bound, false, most), FIRST_PAUSE);
        assert_eq!(pause(2, &held, bound, false, most), 2 * FIRST_PAUSE);
        assert_eq!(pause(30, &held, bound, false, most), LONGEST_PAUSE);
        assert_eq!(pause(1, &held, bound, true, most), LONGEST_PAUSE);
        assert_eq!(pause(1, &held, bound, true, 0), LONGEST_PAUSE / 2);
    }

    #[test]
    fn pauses_are_long_where_nothing_can_be_asked_and_as_long_as_two_rounds_where_rounds_fail() {
        let millis = Duration::from_millis;
        let outage = refusal(Cause::NoQuorum);
        assert_eq!(longest(&outage, millis(5), false), LONGEST_OUTAGE_PAUSE);
        assert_eq!(longest(&outage, millis(5), true), LONGEST_PAUSE);
        assert_eq!(longest(&outage, millis(250), true), millis(500));
        assert_eq!(longest(&outage, millis(999), true), LONGEST_OUTAGE_PAUSE);
        let held = refusal(Cause::Contended { retry_after: None });
        assert_eq!(longest(&held, millis(999), false), LONGEST_PAUSE);
    }

    #[test]
    fn the_holders_expiry_is_not_slept_through() {
        let retry_after = Some(Duration::from_millis(9));
        let held = refusal(Cause::Contended { retry_after });
        let pause = pause(30, &held, LONGEST_PAUSE, true, u128::MAX);
        assert_eq!(pause, Duration::from_millis(10));
    }
}
