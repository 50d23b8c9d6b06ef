//! The callers that wait in a pool, in the order of asking.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use crate::{message::SectionId, time::Instant};

#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub(super) section: SectionId,
    /// `None`: it is refused as soon as all slots were.
    pub(super) wait_until: Option<Instant>,
    /// As the pool counts its events: its place in the order of asking.
    pub(super) joined_at: u64,
}

/// Who is first, and who stops waiting first, is known without a look at all of them, and each can leave from
/// anywhere.
#[derive(Debug, Default)]
pub(super) struct Callers {
    queue: BTreeMap<u64, Caller>,
    places: BTreeMap<SectionId, u64>,
    ends: BTreeSet<(Instant, SectionId)>,
}

impl Callers {
    pub(super) fn join(&mut self, caller: Caller) {
        self.ends.extend(end(&caller));
        self.places.insert(caller.section, caller.joined_at);
        self.queue.insert(caller.joined_at, caller);
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn first(&self) -> Option<Caller> {
        self.queue.first_key_value().map(|(_, caller)| *caller)
    }

    /// The first one that joined later than this.
    pub(super) fn behind(&self, joined_at: u64) -> Option<Caller> {
        let mut behind = self.queue.range(joined_at + 1..);
        behind.next().map(|(_, caller)| *caller)
    }

    pub(super) fn pop(&mut self) -> Option<Caller> {
        let (_, first) = self.queue.pop_first()?;
        self.forget(&first);
        Some(first)
    }

    pub(super) fn leave(&mut self, section: SectionId) {
        let place = self.places.get(&section);
        if let Some(caller) = place.and_then(|place| self.queue.remove(place)) {
            self.forget(&caller);
        }
    }

    /// Takes out those of which this is true.
    pub(super) fn take_if(&mut self, is_it: impl Fn(&Caller) -> bool) -> Vec<Caller> {
        let taken: Vec<Caller> = self
            .queue
            .values()
            .filter(|it| is_it(it))
            .copied()
            .collect();
        self.queue.retain(|_, caller| !is_it(caller));
        taken.iter().for_each(|caller| self.forget(caller));
        taken
    }

    /// Some are there that do not wait.
    pub(super) fn has_impatient(&self) -> bool {
        self.ends.len() < self.queue.len()
    }

    /// Some should have stopped waiting by now.
    pub(super) fn has_late(&self, now: Instant) -> bool {
        self.ends.first().is_some_and(|&(end, _)| end <= now)
    }

    /// When the next one stops waiting.
    pub(super) fn next_end(&self, now: Instant) -> Option<Instant> {
        let now = Bound::Excluded((now, SectionId(u64::MAX)));
        let mut later = self.ends.range((now, Bound::Unbounded));
        later.next().map(|&(end, _)| end)
    }

    pub(super) fn last_end(&self) -> Option<Instant> {
        self.ends.last().map(|&(end, _)| end)
    }

    fn forget(&mut self, caller: &Caller) {
        self.places.remove(&caller.section);
        if let Some(end) = end(caller) {
            self.ends.remove(&end);
        }
    }
}

fn end(caller: &Caller) -> Option<(Instant, SectionId)> {
    caller.wait_until.map(|end| (end, caller.section))
}
