//! The callers of this process that wait for a key, in the order of their calls.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    message::{Mode, SectionId},
    rules::validity::LockParams,
    time::Instant,
};

/// One that waits behind the front.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) section: SectionId,
    pub(super) params: Arc<LockParams>,
    /// When its caller called.
    pub(super) since: Instant,
    /// When its caller stops waiting. One that does not wait may be among readers until then.
    pub(super) wait_until: Instant,
}

impl Waiting {
    pub(super) const fn rank(&self) -> Rank {
        (self.since, self.section)
    }

    fn is_impatient(&self) -> bool {
        self.params.wait.is_zero()
    }
}

/// All behind the front. Each can leave cheaply from anywhere.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Most keys have no waiter.
    ranks: Option<Box<Ranks>>,
}

/// When its caller called: sections are numbered in the order of their calls.
pub(super) type Rank = (Instant, SectionId);

/// At least one is taken. Each is found by its section, by its rank and by when its caller stops waiting.
#[derive(Debug, Default)]
struct Ranks {
    waiting: BTreeMap<SectionId, Waiting>,
    order: BTreeSet<Rank>,
    ends: BTreeSet<(Instant, SectionId)>,
    /// So many are to have the key alone.
    exclusive: usize,
    /// So many do not wait.
    impatient: usize,
    /// So many are for one of several locks of a caller.
    parts: usize,
}

impl Queue {
    pub(super) fn join(&mut self, waiting: Waiting) {
        let ranks = self.ranks.get_or_insert_default();
        ranks.exclusive += usize::from(waiting.params.mode == Mode::Exclusive);
        ranks.impatient += usize::from(waiting.is_impatient());
        ranks.parts += usize::from(waiting.section.is_part());
        ranks.order.insert(waiting.rank());
        ranks.ends.insert((waiting.wait_until, waiting.section));
        ranks.waiting.insert(waiting.section, waiting);
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.ranks.is_none()
    }

    /// Whether all are to share the key.
    pub(super) fn is_of_readers(&self) -> bool {
        let ranks = self.ranks.as_ref();
        ranks.is_none_or(|ranks| ranks.exclusive == 0)
    }

    /// Whether one is for one of several locks of a caller.
    pub(super) fn has_parts(&self) -> bool {
        let ranks = self.ranks.as_ref();
        ranks.is_some_and(|ranks| ranks.parts > 0)
    }

    /// What the first one asks for.
    pub(super) fn first(&self) -> Option<&Arc<LockParams>> {
        let ranks = self.ranks.as_ref()?;
        let &(_, first) = ranks.order.first()?;
        Some(&ranks.waiting.get(&first)?.params)
    }

    pub(super) fn sections(&self) -> impl Iterator<Item = SectionId> {
        let ranks = self.ranks.iter();
        ranks.flat_map(|ranks| ranks.order.iter().map(|&(_, section)| section))
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let &(_, first) = self.ranks.as_ref()?.order.first()?;
        self.leave(first)
    }

    /// Takes out one whose caller has stopped waiting.
    pub(super) fn pop_late(&mut self, now: Instant) -> Option<Waiting> {
        let &(end, section) = self.ranks.as_ref()?.ends.first()?;
        if end > now {
            return None;
        }
        self.leave(section)
    }

    /// Takes out one whose caller does not wait.
    pub(super) fn pop_impatient(&mut self) -> Option<Waiting> {
        let ranks = self.ranks.as_ref()?;
        if ranks.impatient == 0 {
            return None;
        }
        let mut sections = ranks.order.iter().map(|&(_, section)| section);
        let impatient = sections.find(|section| ranks.waiting[section].is_impatient())?;
        self.leave(impatient)
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.ranks.as_ref()?.ends.first().map(|&(end, _)| end)
    }

    pub(super) fn leave(&mut self, section: SectionId) -> Option<Waiting> {
        let ranks = self.ranks.as_mut()?;
        let waiting = ranks.waiting.remove(&section)?;
        ranks.exclusive -= usize::from(waiting.params.mode == Mode::Exclusive);
        ranks.impatient -= usize::from(waiting.is_impatient());
        ranks.parts -= usize::from(section.is_part());
        ranks.order.remove(&waiting.rank());
        ranks.ends.remove(&(waiting.wait_until, section));
        // An empty tree keeps a leaf for eleven waiters: trees took 2.4 of the 5.8 KB of a held lock.
        if ranks.waiting.is_empty() {
            self.ranks = None;
        }
        Some(waiting)
    }
}
