//! The things a passing of time can make due, and the table that knows the next one.

use std::collections::{BTreeMap, BTreeSet};

use crate::{message::SectionId, purpose::KeyId, time::Instant};

/// Who wants to be looked at. What is then due is read from its state: the clock decides, the
/// timer only wakes, and an early or repeated wake-up does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// When to end a round, retry, renew, give up waiting, end a lease, or send a release again.
    Key(KeyId),
    /// When to give up an unanswered connection or connection attempt, to make a new one, or to ask
    /// whether a node may vote.
    Nodes,
    /// When to stop waiting for holders and releases.
    Shutdown,
    /// When the lease of a section with several keys ends, if its keys may last for longer.
    Compound(SectionId),
}

/// At most one time for each timer.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// Those of keys, of which there may be many, are with the keys.
    at: BTreeMap<Timer, Instant>,
    order: BTreeSet<(Instant, Timer)>,
}

impl Timers {
    /// Makes sure that `timer` wakes at `at` or earlier. An earlier time that was set before
    /// stays: its owner sets the next one when it is woken, which is cheaper than moving the
    /// timer each time the owner's state changes.
    pub(crate) fn wake_by(&mut self, timer: Timer, at: Instant) {
        let mut set = self.at.get(&timer).copied();
        if self.wake(timer, &mut set, at) {
            self.at.insert(timer, at);
        }
    }

    pub(crate) fn cancel_key(&mut self, key: KeyId, set: Option<Instant>) {
        if let Some(at) = set {
            self.order.remove(&(at, Timer::Key(key)));
        }
    }

    /// Sets a timer whose owner keeps its time, as keys do, and forgets it once it is woken. False if
    /// it wakes early enough.
    pub(crate) fn wake(&mut self, timer: Timer, set: &mut Option<Instant>, at: Instant) -> bool {
        if set.is_some_and(|set| set <= at) {
            return false;
        }
        if let Some(before) = set.replace(at) {
            self.order.remove(&(before, timer));
        }
        self.order.insert((at, timer))
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.order.first().map(|&(at, _)| at)
    }

    /// Takes out one timer that is due at `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        let &(at, timer) = self.order.first()?;
        if at > now {
            return None;
        }
        self.order.pop_first();
        self.at.remove(&timer);
        Some(timer)
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
        let timer = Timer::Nodes;
        timers.wake_by(timer, at(20));
        timers.wake_by(timer, at(30));
        assert_eq!(timers.next(), Some(at(20)));
        timers.wake_by(timer, at(10));
        assert_eq!(timers.next(), Some(at(10)));
        assert_eq!(timers.pop_due(at(9)), None);
        assert_eq!(timers.pop_due(at(10)), Some(timer));
        assert_eq!(timers.next(), None);
    }
}
