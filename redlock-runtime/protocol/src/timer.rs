//! The things of which there are many that a passing of time can make due, and the table that knows the next one.

use std::collections::BTreeSet;

use crate::{message::SectionId, purpose::KeyId, time::Instant};

/// Who wants to be looked at. What is then due is read from its state: the clock decides, the
/// timer only wakes, and an early or repeated wake-up does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// When to end a round, retry, renew, give up waiting, end a lease, or send a release again.
    Key(KeyId),
    /// When the lease of a section with several keys ends, if its keys may last for longer.
    Compound(SectionId),
}

#[derive(Debug, Default)]
pub(crate) struct Timers {
    order: BTreeSet<(Instant, Timer)>,
}

impl Timers {
    pub(crate) fn wake(&mut self, timer: Timer, at: Instant) {
        self.order.insert((at, timer));
    }

    /// Wakes a key, which keeps the time that is `set` and forgets it once it is woken. An earlier time that was set
    /// before stays: the key sets the next one when it is woken, which is cheaper than moving the timer each time its
    /// state changes.
    pub(crate) fn wake_key(&mut self, key: KeyId, set: &mut Option<Instant>, at: Instant) {
        if set.is_none_or(|set| at < set) {
            self.cancel_key(key, set.replace(at));
            self.wake(Timer::Key(key), at);
        }
    }

    pub(crate) fn cancel_key(&mut self, key: KeyId, set: Option<Instant>) {
        if let Some(at) = set {
            self.order.remove(&(at, Timer::Key(key)));
        }
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.order.first().map(|&(at, _)| at)
    }

    /// Takes out one timer that is due at `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        self.next().filter(|&at| at <= now)?;
        self.order.pop_first().map(|(_, timer)| timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn an_earlier_time_stays_and_a_later_one_is_moved_forward() {
        let mut timers = Timers::default();
        let (key, mut set) = (KeyId(0), None);
        for (asked, next) in [(20, 20), (30, 20), (10, 10)] {
            timers.wake_key(key, &mut set, at(asked));
            assert_eq!((timers.next(), set), (Some(at(next)), Some(at(next))));
        }
        assert_eq!(timers.pop_due(at(9)), None);
        assert_eq!(timers.pop_due(at(10)), Some(Timer::Key(key)));
        assert_eq!(timers.next(), None);
    }
}
