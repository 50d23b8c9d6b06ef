//! The queue of a fair lock: of each process that waits, since when.
//!
//! It is advice, and one node's: a grant of that node alone gives no client the lock.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{Model, Moment, Overflow, vote::Vote};
use crate::{
    message::{Process, Reply, SectionId, Ticket},
    time::{self, Instant},
};

/// Who waits for one key.
pub(super) type Queue = BTreeMap<Process, Place>;

/// One process. All in milliseconds of the node's clock, which may be set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    waiter: SectionId,
    /// Before 1970 on a node whose clock has been reset.
    since: i64,
    until: i64,
}

impl Place {
    /// None for one that does not wait.
    fn new(ticket: Ticket, since: i64, now: i64) -> Option<Self> {
        let lasts = millis(ticket.patience.min(Ticket::LASTS));
        (lasts > 0).then_some(Self {
            waiter: ticket.waiter,
            since,
            until: now + lasts,
        })
    }

    /// One that lasts longer than any place can was made before the clock was set back.
    fn is_valid(&self, now: i64) -> bool {
        now < self.until && self.until <= now + millis(Ticket::LASTS)
    }
}

impl Model {
    /// Grants the key if it is free and no other process has waited longer. Who is refused takes a
    /// place, or keeps it.
    pub(super) fn acquire_in_order(
        &mut self,
        vote: Vote<'_>,
        waits: bool,
        ticket: Ticket,
        at: Moment,
    ) -> Result<Reply, Overflow> {
        self.next_block(vote, true, at)?;
        let now = whole_millis(at.now);
        let process = vote.owner.process();
        let mut queue = self.queues.remove(vote.key).unwrap_or_default();
        queue.retain(|_, place| place.is_valid(now));
        let own = queue.remove(&process);
        let own = own.filter(|place| place.waiter == ticket.waiter);
        let since = own.map_or_else(|| now - millis(ticket.waited), |place| place.since);
        let is_ahead =
            |&(&other, place): &(&Process, &Place)| (place.since, other) < (since, process);
        let ahead = queue.iter().filter(is_ahead).count() as u32;
        let until = queue.iter().filter(is_ahead).map(|(_, place)| place.until);
        let until = until.max();
        let is_held = self.key(vote.key, at.now).is_some();
        if is_held || ahead > 0 {
            queue.extend(Place::new(ticket, since, now).map(|place| (process, place)));
        }
        if !queue.is_empty() {
            self.queues.insert(Arc::clone(vote.key), queue);
        }
        if let Some(until) = until.filter(|_| !is_held) {
            return Ok(Reply::Held {
                owner: None,
                remaining: Some(Duration::from_millis((until - now) as u64)),
                ahead,
            });
        }
        let mut reply = self.acquire(vote, waits, at)?;
        if let Reply::Held { ahead: told, .. } = &mut reply {
            *told = ahead;
        }
        Ok(reply)
    }

    /// Which processes wait for this key, and since when: in milliseconds of the node's clock.
    #[must_use]
    pub fn places(&self, key: &str) -> Vec<(Process, i64)> {
        let queue = self.queues.get(key).into_iter().flatten();
        queue
            .map(|(&process, place)| (process, place.since))
            .collect()
    }

    /// Gives a process a place, or takes it away.
    pub(super) fn place(
        &mut self,
        key: &Arc<str>,
        process: Process,
        ticket: Option<Ticket>,
        now: Instant,
    ) -> Reply {
        let now = whole_millis(now);
        let place = |ticket: Ticket| Place::new(ticket, now - millis(ticket.waited), now);
        let queue = self.queues.entry(Arc::clone(key)).or_default();
        queue.remove(&process);
        queue.extend(ticket.and_then(place).map(|place| (process, place)));
        Reply::Placed
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
