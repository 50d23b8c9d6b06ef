//! The callers of this process that wait for a key, in the order of asking.

use std::collections::{BTreeMap, BTreeSet};

use super::{fairness::Standing, waiting::Split};
use crate::{
    message::{Mode, SectionId},
    rules::validity::LockParams,
    time::Instant,
};

/// One that waits.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) section: SectionId,
    pub(super) params: LockParams,
    /// When its caller stops waiting. One that does not wait may be among readers until then.
    pub(super) wait_until: Instant,
    pub(super) lost_attempts: u32,
    /// One node's word is not enough: see `attempt`.
    pub(super) asks_all: bool,
    /// Its last attempt was refused by none that holds the lock: see `attempt`.
    pub(super) split: Option<Split>,
    /// It was refused by a key that others share; if it shares, because a process waits to have it alone.
    pub(super) met_readers: bool,
    /// If it is fair.
    pub(super) standing: Standing,
}

impl Waiter {
    /// Its caller does, after a refusal.
    pub(super) fn goes_on_waiting(&self, now: Instant) -> bool {
        now < self.wait_until && !self.params.wait.is_zero()
    }

    pub(super) const fn is_exclusive(&self) -> bool {
        matches!(self.params.mode, Mode::Exclusive)
    }
}

/// All behind the front. Each can leave cheaply from anywhere.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// In boxes: a tree is half empty, since its keys come in order.
    waiting: BTreeMap<u64, Box<Waiter>>,
    places: BTreeMap<SectionId, u64>,
    ends: BTreeSet<(Instant, u64)>,
    joined: u64,
    /// So many are to have the key alone.
    exclusive: usize,
    /// So many do not wait.
    impatient: usize,
}

impl Queue {
    pub(super) fn join(&mut self, waiter: Waiter) {
        self.joined += 1;
        self.exclusive += usize::from(waiter.is_exclusive());
        self.impatient += usize::from(waiter.params.wait.is_zero());
        self.places.insert(waiter.section, self.joined);
        self.ends.insert((waiter.wait_until, self.joined));
        self.waiting.insert(self.joined, Box::new(waiter));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether all are to share the key.
    pub(super) const fn is_of_readers(&self) -> bool {
        self.exclusive == 0
    }

    pub(super) fn first(&self) -> Option<&Waiter> {
        self.waiting.first_key_value().map(|(_, waiter)| &**waiter)
    }

    pub(super) fn sections(&self) -> impl Iterator<Item = SectionId> {
        self.waiting.values().map(|waiter| waiter.section)
    }

    pub(super) fn pop(&mut self) -> Option<Waiter> {
        let place = *self.waiting.first_key_value()?.0;
        self.take(place)
    }

    pub(super) fn leave(&mut self, section: SectionId) -> Option<Waiter> {
        let place = *self.places.get(&section)?;
        self.take(place)
    }

    /// Takes out one whose caller has stopped waiting.
    pub(super) fn pop_late(&mut self, now: Instant) -> Option<Waiter> {
        let &(end, place) = self.ends.first()?;
        if end > now {
            return None;
        }
        self.take(place)
    }

    /// Takes out one whose caller does not wait.
    pub(super) fn pop_impatient(&mut self) -> Option<Waiter> {
        if self.impatient == 0 {
            return None;
        }
        let mut waiting = self.waiting.iter();
        let (&place, _) = waiting.find(|(_, waiter)| waiter.params.wait.is_zero())?;
        self.take(place)
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.ends.first().map(|&(end, _)| end)
    }

    fn take(&mut self, place: u64) -> Option<Waiter> {
        let waiter = *self.waiting.remove(&place)?;
        self.exclusive -= usize::from(waiter.is_exclusive());
        self.impatient -= usize::from(waiter.params.wait.is_zero());
        self.places.remove(&waiter.section);
        self.ends.remove(&(waiter.wait_until, place));
        if self.is_empty() {
            // An empty tree keeps a node of eleven waiters.
            let joined = self.joined;
            *self = Self {
                joined,
                ..Self::default()
            };
        }
        Some(waiter)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(0).after(Duration::from_millis(millis))
    }

    fn queue(ends: &[u64]) -> Queue {
        let mut queue = Queue::default();
        for (section, &end) in (0..).zip(ends) {
            queue.join(Waiter {
                section: SectionId(section),
                params: LockParams::of(Duration::from_secs(1)),
                wait_until: at(end),
                lost_attempts: 0,
                asks_all: false,
                split: None,
                met_readers: false,
                standing: Standing::default(),
            });
        }
        queue
    }

    fn drain(mut queue: Queue) -> Vec<u64> {
        std::iter::from_fn(|| queue.pop().map(|waiter| waiter.section.0)).collect()
    }

    #[test]
    fn the_first_to_ask_is_the_first_to_go() {
        assert_eq!(drain(queue(&[30, 10, 20])), [0, 1, 2]);
    }

    #[test]
    fn a_waiter_leaves_from_anywhere_and_once() {
        let mut queue = queue(&[30, 10, 20]);
        assert!(queue.leave(SectionId(1)).is_some());
        assert!(queue.leave(SectionId(1)).is_none());
        assert_eq!(drain(queue), [0, 2]);
    }

    #[test]
    fn waiters_stop_waiting_in_the_order_of_their_ends() {
        let mut queue = queue(&[30, 10, 20]);
        assert_eq!(queue.next_due(), Some(at(10)));
        assert!(queue.pop_late(at(9)).is_none());
        assert_eq!(queue.pop_late(at(10)).unwrap().section, SectionId(1));
        assert_eq!(queue.next_due(), Some(at(20)));
        assert_eq!(drain(queue), [0, 2]);
    }
}
