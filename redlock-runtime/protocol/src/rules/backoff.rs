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

/// How long the front waiter pauses: longer each time and never twice the same, so that processes
/// that collided do not collide again, but not beyond the moment at which the present holder's key
/// expires. A waiter that a node notifies when the lock is free asks seldom.
pub(crate) fn pause(
    lost_attempts: u32,
    refusal: &Refusal,
    is_notified: bool,
    random: u128,
) -> Duration {
    let bound = if refusal.lacks_quorum() {
        LONGEST_OUTAGE_PAUSE
    } else {
        LONGEST_PAUSE
    };
    let longest = if is_notified {
        bound
    } else {
        let doublings = lost_attempts.saturating_sub(1).min(10);
        FIRST_PAUSE.saturating_mul(1 << doublings).min(bound)
    };
    let pause = longest / 2 + jitter(longest / 2, random);
    match refusal.cause {
        Cause::Contended {
            retry_after: Some(expiry),
        } => pause.min(expiry.saturating_add(AFTER_EXPIRY)),
        _ => pause,
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
        let most = u128::MAX;
        assert_eq!(pause(1, &held, false, most), FIRST_PAUSE);
        assert_eq!(pause(2, &held, false, most), 2 * FIRST_PAUSE);
        assert_eq!(pause(30, &held, false, most), LONGEST_PAUSE);
        assert_eq!(pause(1, &held, true, most), LONGEST_PAUSE);
        assert_eq!(pause(1, &held, true, 0), LONGEST_PAUSE / 2);
        let outage = refusal(Cause::NoQuorum);
        assert_eq!(pause(30, &outage, false, most), LONGEST_OUTAGE_PAUSE);
    }

    #[test]
    fn the_holders_expiry_is_not_slept_through() {
        let retry_after = Some(Duration::from_millis(9));
        let held = refusal(Cause::Contended { retry_after });
        assert_eq!(pause(30, &held, true, u128::MAX), Duration::from_millis(10));
    }
}
