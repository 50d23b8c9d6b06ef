//! The queue of a fair lock: of each process that waits, since when.
//!
//! It is advice, and one node's: a grant of that node alone gives nobody the lock.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{Model, Moment, Overflow, vote::Vote};
use crate::message::{Process, Reply, SectionId, Ticket};

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
    /// One that lasts longer than any place can was made before the clock was set back.
    const fn is_valid(&self, now: i64) -> bool {
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
        let now = (at.now.as_nanos() / 1_000_000) as i64;
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
        let lasts = millis(ticket.patience.min(Ticket::LASTS));
        if lasts > 0 && (is_held || ahead > 0) {
            let place = Place {
                waiter: ticket.waiter,
                since,
                until: now + lasts,
            };
            queue.insert(process, place);
        }
        if !queue.is_empty() {
            self.queues.insert(Arc::clone(vote.key), queue);
        }
        if let Some(until) = until.filter(|_| !is_held) {
            return Ok(Reply::Queued {
                owner: None,
                remaining: Some(Duration::from_millis((until - now) as u64)),
                ahead,
            });
        }
        Ok(match self.acquire(vote, waits, at)? {
            Reply::Held { owner, remaining } => Reply::Queued {
                owner,
                remaining,
                ahead,
            },
            reply => reply,
        })
    }

    pub(super) fn leave(&mut self, key: &str, process: Process) -> Reply {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.remove(&process);
        }
        Reply::Left
    }
}

/// Rounded up, as scripts are given it.
const fn millis(time: Duration) -> i64 {
    let millis = time.as_nanos().div_ceil(1_000_000);
    if millis < 1 << 52 {
        millis as i64
    } else {
        1 << 52
    }
}
