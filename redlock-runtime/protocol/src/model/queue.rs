//! The queue for a lock: of each process that waits, since when.
//!
//! It is advice, and one node's: a grant of that node alone gives no client the lock.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{Model, Moment, vote::Vote};
use crate::{
    message::{Ahead, Mode, Owner, Process, Ticket},
    time::{self, Instant},
};

/// Who waits for one lock.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    places: BTreeMap<Process, Place>,
    /// So long after a place was taken last the node forgets the queue.
    expires: Instant,
}

/// One process. All in milliseconds of the node's clock, which may be set.
#[derive(Clone, Copy, Debug)]
struct Place {
    process: Process,
    came: u64,
    /// Before 1970 on a node whose clock has been reset.
    since: i64,
    until: i64,
    grace: i64,
    mode: Mode,
}

/// What the queue says to one that asks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standing {
    pub(super) ahead: Ahead,
    pub(super) since: i64,
}

impl Place {
    /// One that lasts longer than any place can was made before the clock was set back.
    fn is_valid(&self, now: i64) -> bool {
        now < self.until && self.until <= now + millis(Ticket::LASTS)
    }

    /// It came before one of this kind, and cannot have the lock together with it.
    fn is_before(&self, process: Process, since: i64, mode: Mode) -> bool {
        (self.since, self.process) < (since, process) && self.excludes(mode)
    }

    /// It cannot have the lock together with one of this kind.
    fn excludes(&self, mode: Mode) -> bool {
        mode == Mode::Exclusive || self.mode == Mode::Exclusive
    }
}

impl Model {
    /// Where the owner stands in the queue. The place of the process that has the lock does not count, nor that
    /// of an earlier waiter of its own. Places that have ended are removed.
    pub(super) fn standing(&mut self, vote: Vote<'_>, ticket: Ticket, at: Moment) -> Standing {
        let holder = self.key(vote.key, at.now).and_then(|key| key.owner);
        let holder = holder.map(Owner::process);
        let now = whole_millis(at.now);
        let mut since = now - millis(ticket.waited);
        let Some(queue) = self.queue(vote.key, at.now) else {
            let ahead = Ahead::default();
            return Standing { ahead, since };
        };
        queue.places.retain(|_, place| place.is_valid(now));
        let process = vote.owner.process();
        let own = queue.places.get(&process);
        if let Some(own) = own.filter(|own| own.came == ticket.came) {
            since = own.since;
        }
        let is_before =
            |place: &&Place| place.process != process && place.is_before(process, since, vote.mode);
        let before = queue.places.values().filter(is_before);
        let first = before.clone().map(|place| place.since).min();
        let before = before.filter(|place| Some(place.process) != holder);
        let count = before.clone().count() as u32;
        let release = holder.and_then(|holder| queue.places.get(&holder));
        let grace = match count {
            0 => release.map_or(0, |holder| holder.grace),
            _ => before.map(|place| place.grace).sum(),
        };
        let ahead = Ahead {
            count,
            grace: Duration::from_millis(grace as u64),
            first: first.unwrap_or_default().max(0) as u64,
        };
        Standing { ahead, since }
    }

    /// The owner takes its place, or keeps it.
    pub(super) fn stand(&mut self, vote: Vote<'_>, ticket: Ticket, since: i64, at: Moment) {
        let now = whole_millis(at.now);
        let process = vote.owner.process();
        let lasts = millis(ticket.lasts.min(Ticket::LASTS));
        if lasts == 0 {
            self.leave(vote.key, process);
            return;
        }
        let place = Place {
            process,
            came: ticket.came,
            since,
            until: now + lasts,
            grace: millis(ticket.grace),
            mode: vote.mode,
        };
        let expires = at.now.after(Ticket::LASTS);
        let new = || Queue {
            places: BTreeMap::new(),
            expires,
        };
        let queue = self.queues.entry(Arc::clone(vote.key));
        let queue = queue.or_insert_with(new);
        queue.places.insert(process, place);
        queue.expires = expires;
    }

    /// The owner gets the lock. Those that it goes before may be gone: who is not takes its place again.
    /// Whether others wait.
    pub(super) fn pass(&mut self, vote: Vote<'_>, ticket: Ticket, since: i64, at: Moment) -> bool {
        let process = vote.owner.process();
        let is_in_order = ticket.passes.is_some();
        let mut is_waited_for = false;
        if let Some(queue) = self.queue(vote.key, at.now) {
            queue.places.remove(&process);
            if is_in_order {
                let stays = |place: &Place| !place.is_before(process, since, vote.mode);
                queue.places.retain(|_, place| stays(place));
            }
            is_waited_for = queue.places.values().any(|place| place.excludes(vote.mode));
        }
        if is_in_order && vote.mode == Mode::Exclusive {
            self.stand(vote, ticket, since, at);
        }
        is_waited_for
    }

    /// Another process has a place, or had one a moment ago.
    pub(super) fn is_waited_for(&mut self, vote: Vote<'_>, now: Instant) -> bool {
        let queue = self.queue(vote.key, now);
        let process = vote.owner.process();
        queue.is_some_and(|queue| queue.places.keys().any(|other| *other != process))
    }

    pub(super) fn leave(&mut self, key: &Arc<str>, process: Process) {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.places.remove(&process);
            if queue.places.is_empty() {
                self.queues.remove(key);
            }
        }
    }

    fn queue(&mut self, key: &Arc<str>, now: Instant) -> Option<&mut Queue> {
        if self.queues.get(key)?.expires <= now {
            self.queues.remove(key);
        }
        self.queues.get_mut(key)
    }

    /// Which processes wait for this key, and since when: in milliseconds of the node's clock.
    #[must_use]
    pub fn places(&self, key: &str) -> Vec<(Process, i64)> {
        let queue = self.queues.get(key);
        let places = queue.into_iter().flat_map(|queue| &queue.places);
        places
            .map(|(&process, place)| (process, place.since))
            .collect()
    }
}

/// Of the node's clock, which scripts round down.
const fn whole_millis(now: Instant) -> i64 {
    (now.as_nanos() / 1_000_000) as i64
}

/// Rounded up, as scripts are given it.
fn millis(span: Duration) -> i64 {
    time::millis(span).min(1 << 52) as i64
}
