//! How long to pause in an outage, and the bounds of other pauses: the pause after a refusal is in `key::waiting`.

use std::time::Duration;

use crate::action::{Cause, Refusal};

/// The first pause while no majority can vote; doubled with every further one.
const FIRST_PAUSE: Duration = Duration::from_millis(4);

/// The longest, if a majority could be asked and rounds take no time.
const SHORT_OUTAGE_PAUSE: Duration = Duration::from_millis(64);

/// The longest. A node that votes again ends it.
const LONGEST_OUTAGE_PAUSE: Duration = Duration::from_secs(1);

/// A node drops an expired key on its own clock; asking so much later finds it gone.
const AFTER_EXPIRY: Duration = Duration::from_millis(1);

/// The longest time between two looks at the queue: less than a place in it lasts.
pub(crate) const LONGEST_LOOK: Duration = Duration::from_millis(800);

/// The shortest, however many go in that time.
pub(crate) const SHORTEST_LOOK: Duration = Duration::from_millis(2);

/// Between two looks of the first in the queue, if no node tells of changes; doubled with every further one.
pub(crate) const SHORTEST_POLL: Duration = Duration::from_millis(10);

/// How long a lock may stand free unnoticed, if no node tells of changes.
pub(crate) const LONGEST_POLL: Duration = Duration::from_millis(70);

/// Between two looks of those who are not told because others are likely to be served first, unless those take longer.
pub(crate) const LONGEST_POLL_BEHIND: Duration = Duration::from_millis(100);

/// How long one of those ahead takes, as long as none has gone.
pub(crate) const FIRST_PACE: Duration = Duration::from_millis(4);

/// How long the front waiter pauses while no majority can vote: longer each time and never twice the same. Where
/// a majority could be asked and failed, no admission ends the pause, so it is in proportion to what an attempt
/// takes.
pub(crate) fn pause(
    lost_attempts: u32,
    round_timeout: Duration,
    can_ask: bool,
    random: u128,
) -> Duration {
    let longest = match can_ask {
        true => (2 * round_timeout).clamp(SHORT_OUTAGE_PAUSE, LONGEST_OUTAGE_PAUSE),
        false => LONGEST_OUTAGE_PAUSE,
    };
    let doublings = lost_attempts.saturating_sub(1).min(10);
    let longest = FIRST_PAUSE.saturating_mul(1 << doublings).min(longest);
    // Half is fixed, so that no pause is near zero; half is drawn, so that waiters part.
    longest / 2 + jitter(longest / 2, random)
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

    #[test]
    fn pauses_double_up_to_what_two_rounds_take_or_to_a_second() {
        let millis = Duration::from_millis;
        let pause = |lost, round, can_ask| pause(lost, millis(round), can_ask, u128::MAX);
        assert_eq!(pause(1, 250, true), FIRST_PAUSE);
        assert_eq!(pause(2, 250, true), 2 * FIRST_PAUSE);
        assert_eq!(pause(30, 5, true), SHORT_OUTAGE_PAUSE);
        assert_eq!(pause(30, 250, true), millis(500));
        assert_eq!(pause(30, 999, true), LONGEST_OUTAGE_PAUSE);
        assert_eq!(pause(30, 5, false), LONGEST_OUTAGE_PAUSE);
    }
}
