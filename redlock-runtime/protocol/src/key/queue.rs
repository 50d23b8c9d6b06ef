//! The callers of this process that wait for a key, in the order of their calls.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::waiting::{Place as Standing, Split};
use crate::{
    message::{Mode, SectionId},
    rules::validity::LockParams,
    time::Instant,
};

/// One that waits behind the front.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) section: SectionId,
    pub(super) params: Arc<LockParams>,
    /// When its caller called.
    pub(super) since: Instant,
    /// When its caller stops waiting. One that does not wait may be among readers until then.
    pub(super) wait_until: Instant,
}

/// One that has come to the front.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) section: SectionId,
    pub(super) params: Arc<LockParams>,
    /// When its caller called, or was last given what it could not lock.
    pub(super) since: Instant,
    pub(super) wait_until: Instant,
    pub(super) lost_attempts: u32,
    /// One node's word is not enough: see `attempt`.
    pub(super) asks_all: bool,
    /// Its last attempt was refused by none that holds the lock: see `attempt`.
    pub(super) split: Option<Split>,
    /// In the queue of all processes.
    pub(super) place: Standing,
}

impl Waiting {
    fn is_impatient(&self) -> bool {
        self.params.wait.is_zero()
    }
}

impl Waiter {
    /// Nothing has been done for it.
    pub(super) fn new(waiting: Waiting) -> Self {
        Self {
            section: waiting.section,
            params: waiting.params,
            since: waiting.since,
            wait_until: waiting.wait_until,
            lost_attempts: 0,
            asks_all: false,
            split: None,
            place: Standing::default(),
        }
    }

    /// Its caller does, after a refusal.
    pub(super) fn goes_on_waiting(&self, now: Instant) -> bool {
        now < self.wait_until && !self.params.wait.is_zero()
    }
}

/// All behind the front. Each can leave cheaply from anywhere.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Most keys have no waiter.
    places: Option<Box<Places>>,
}

/// When its caller called, and how many had joined by then.
type Place = (Instant, u64);

/// At least one is taken.
#[derive(Debug, Default)]
struct Places {
    waiting: BTreeMap<Place, Waiting>,
    of: BTreeMap<SectionId, Place>,
    ends: BTreeSet<(Instant, Place)>,
    joined: u64,
    /// So many are to have the key alone.
    exclusive: usize,
    /// So many do not wait.
    impatient: usize,
}

impl Queue {
    pub(super) fn join(&mut self, waiting: Waiting) {
        let places = self.places.get_or_insert_default();
        places.joined += 1;
        let place = (waiting.since, places.joined);
        places.exclusive += usize::from(waiting.params.mode == Mode::Exclusive);
        places.impatient += usize::from(waiting.is_impatient());
        places.of.insert(waiting.section, place);
        places.ends.insert((waiting.wait_until, place));
        places.waiting.insert(place, waiting);
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.places.is_none()
    }

    /// Whether all are to share the key.
    pub(super) fn is_of_readers(&self) -> bool {
        let places = self.places.as_ref();
        places.is_none_or(|places| places.exclusive == 0)
    }

    /// What the first one asks for.
    pub(super) fn first(&self) -> Option<&Arc<LockParams>> {
        let (_, first) = self.places.as_ref()?.waiting.first_key_value()?;
        Some(&first.params)
    }

    pub(super) fn sections(&self) -> impl Iterator<Item = SectionId> {
        let places = self.places.iter();
        places.flat_map(|places| places.waiting.values().map(|waiting| waiting.section))
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let place = *self.places.as_ref()?.waiting.first_key_value()?.0;
        self.take(place)
    }

    pub(super) fn leave(&mut self, section: SectionId) -> Option<Waiting> {
        let place = *self.places.as_ref()?.of.get(&section)?;
        self.take(place)
    }

    /// Takes out one whose caller has stopped waiting.
    pub(super) fn pop_late(&mut self, now: Instant) -> Option<Waiting> {
        let &(end, place) = self.places.as_ref()?.ends.first()?;
        if end > now {
            return None;
        }
        self.take(place)
    }

    /// Takes out one whose caller does not wait.
    pub(super) fn pop_impatient(&mut self) -> Option<Waiting> {
        let places = self.places.as_ref()?;
        if places.impatient == 0 {
            return None;
        }
        let mut waiting = places.waiting.iter();
        let (&place, _) = waiting.find(|(_, waiting)| waiting.is_impatient())?;
        self.take(place)
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.places.as_ref()?.ends.first().map(|&(end, _)| end)
    }

    fn take(&mut self, place: Place) -> Option<Waiting> {
        let places = self.places.as_mut()?;
        let waiting = places.waiting.remove(&place)?;
        places.exclusive -= usize::from(waiting.params.mode == Mode::Exclusive);
        places.impatient -= usize::from(waiting.is_impatient());
        places.of.remove(&waiting.section);
        places.ends.remove(&(waiting.wait_until, place));
        if places.waiting.is_empty() {
            self.places = None;
        }
        Some(waiting)
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
            let waiting = Waiting {
                section: SectionId(section),
                params: Arc::new(LockParams::of(Duration::from_secs(1))),
                since: at(0),
                wait_until: at(end),
            };
            queue.join(waiting);
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
