//! The queue for a lock: of each process that waits, since when.
//!
//! It is advice, and one node's: a grant of that node alone gives no client the lock.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{Model, Moment, Stored, Value};
use crate::{
    message::{AdmissionId, Ahead, Mode, Owner, Process, Reply, Stand, Ticket, Vote},
    rules::key_names::line_of,
    time::{self, Instant},
};

/// The key at which callers wait for permits goes with the first slot that is released. It is made anew if that takes
/// longer.
const LINE_LASTS: Duration = Duration::from_secs(10);

/// Who waits for one lock.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    places: BTreeMap<Process, Place>,
    /// The slots that are left to a process which has been told of them, and until when.
    promised: BTreeMap<u32, i64>,
    /// Since when the lock has been free and left to those ahead.
    free: Option<i64>,
    /// So long after a place was taken last the node forgets the queue.
    expires: Option<Instant>,
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
    /// In the line of a lock with permits, who needs several of them has it alone.
    mode: Mode,
}

/// What the queue says to one that asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    ticket: Ticket,
    pub(super) ahead: Ahead,
    since: i64,
    free: Option<i64>,
}

impl Standing {
    /// The lock is free: the process may have it, because nobody is ahead or all of them have had their time.
    pub(super) fn is_next(&mut self, now: Instant) -> bool {
        let elapsed = self.free.map(|free| (whole_millis(now) - free) as u64);
        let elapsed = Duration::from_millis(elapsed.unwrap_or_default());
        // The reply tells what is left of it: else a caller that asks again would wait for all of it again.
        self.ahead.grace = self.ahead.grace.saturating_sub(elapsed);
        let is_over = self.free.is_some() && self.ahead.grace.is_zero();
        self.ahead.count == 0 || !self.ticket.is_ordered || is_over
    }
}

impl Place {
    /// It came before one of this kind, and cannot have the lock together with it.
    fn is_before(&self, process: Process, since: i64, mode: Mode) -> bool {
        // The process decides between two that came in one millisecond: else neither would be ahead of the other.
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
    pub(super) fn standing(&mut self, vote: &Vote, ticket: Ticket, at: Moment) -> Standing {
        let holder = self.key(&vote.key, at.now).and_then(|key| key.owner);
        let holder = holder.map(Owner::process);
        let now = whole_millis(at.now);
        let mut since = now - millis(ticket.waited);
        let mut none = Queue::default();
        let queue = self.queue(&vote.key, at.now).unwrap_or(&mut none);
        // A process that died gives up its place by not asking again.
        queue.places.retain(|_, place| lasts(place.until, now));
        queue.promised.retain(|_, until| lasts(*until, now));
        let process = vote.owner.process();
        // Asking again must not cost the place, and a later call must not inherit it.
        let own = queue.places.get(&process);
        if let Some(own) = own.filter(|own| own.came == ticket.came) {
            // A node's clock that was set must not move a process that is here already.
            since = own.since;
        }
        let is_ahead = |place: &&Place| {
            place.is_before(process, since, vote.mode)
                && place.process != process
                && Some(place.process) != holder
        };
        let before = queue.places.values().filter(is_ahead);
        let count = before.clone().count() as u32;
        let release = holder.and_then(|holder| queue.places.get(&holder));
        // With nobody ahead, it is the time for which the holder's release may be on its way.
        let grace = match count {
            0 => release.map_or(0, |holder| holder.grace),
            _ => before.map(|place| place.grace).sum(),
        };
        let ahead = Ahead {
            count,
            grace: Duration::from_millis(grace as u64).min(Ahead::LONGEST_GRACE),
        };
        // In the future only after the clock was set back.
        let free = queue.free.filter(|&free| free <= now);
        Standing {
            ticket,
            ahead,
            since,
            free,
        }
    }

    /// The owner takes its place, or keeps it. The lock is left to those ahead, or it is not free.
    pub(super) fn stand(&mut self, vote: &Vote, standing: Standing, is_left: bool, at: Moment) {
        let ticket = standing.ticket;
        let now = whole_millis(at.now);
        if let Some(queue) = self.queue(&vote.key, at.now) {
            // Kept from the first question on: else those who ask often would never let the time of those ahead end.
            queue.free = is_left.then_some(standing.free.unwrap_or(now));
        }
        let process = vote.owner.process();
        // A place that lasted for longer would look like one from before the clock was set back: see `lasts`.
        let lasts = millis(ticket.lasts.min(Ticket::LASTS));
        if lasts == 0 {
            return self.give_up(&vote.key, process);
        }
        let place = Place {
            process,
            came: ticket.came,
            since: standing.since,
            until: now + lasts,
            grace: millis(ticket.grace),
            mode: vote.mode,
        };
        self.queue_or_new(&vote.key, at.now)
            .places
            .insert(process, place);
    }

    /// Which slot of a lock with permits is free for the owner's process.
    pub(super) fn stand_in_line(&mut self, stand: &Stand, at: Moment) -> Reply {
        let &Stand {
            ref key,
            owner,
            permits,
            needs_several,
            ticket,
            ..
        } = stand;
        let mut vote = Vote {
            key: Arc::clone(key),
            owner,
            mode: Mode::Exclusive,
            ttl: Duration::ZERO,
            block: None,
            admission: AdmissionId(0),
        };
        let mut standing = self.standing(&vote, ticket, at);
        let promised = self.queue(key, at.now).map(|queue| queue.promised.clone());
        let promised = promised.unwrap_or_default();
        let (free, first) = self.slots(stand, &promised, at.now);
        // A slot is left for each of those ahead, so this one passes nobody.
        let is_enough = free.len() > standing.ahead.count as usize;
        if let Some(&slot) = free.first()
            && (is_enough || standing.is_next(at.now))
        {
            let queue = self.queue_or_new(key, at.now);
            queue.pass(&vote, standing, ticket.is_ordered && !is_enough);
            let lasts = ticket.grace.min(Ahead::LONGEST_GRACE);
            // Others are told of other slots meanwhile, so two processes do not ask for one and split the nodes.
            let until = whole_millis(at.now) + millis(lasts).max(1);
            queue.promised.insert(slot, until);
            return Reply::Turn { slot };
        }
        if !needs_several {
            vote.mode = Mode::Shared;
        }
        self.stand(&vote, standing, !free.is_empty(), at);
        // Who waits reads this key, and is told of the next release because that deletes it.
        let is_new = !ticket.lasts.is_zero() && self.key(key, at.now).is_none();
        if is_new {
            let line = Stored {
                value: Value::Foreign(None),
                expires: Some(at.now.after(LINE_LASTS)),
            };
            self.keys.insert(Arc::clone(key), line);
        }
        if !free.is_empty() {
            return Reply::Queued(standing.ahead);
        }
        Reply::Full {
            remaining: first,
            ahead: standing.ahead,
            is_new,
            share: self.share(key, (permits, owner.process()), at.now),
        }
    }

    /// Which slots are free, and if none is when the first may be: one that is left to a process, or else the one whose
    /// key expires first.
    fn slots(
        &self,
        stand: &Stand,
        promised: &BTreeMap<u32, i64>,
        now: Instant,
    ) -> (Vec<u32>, Option<Duration>) {
        let slots = (0..stand.permits).map(|slot| (stand.start + slot) % stand.permits);
        let held = |slot: u32| self.key(&format!("{}{slot}", stand.key), now);
        let is_free = |slot: &u32| held(*slot).is_none() && !promised.contains_key(slot);
        let free = slots.clone().filter(is_free).collect();
        let ends = slots.filter_map(|slot| held(slot)?.remaining(now));
        let promises = promised.range(..stand.permits).map(|(_, until)| until);
        let promise = promises.map(|until| (until - whole_millis(now)) as u64);
        let promise = promise.min().map(Duration::from_millis);
        (free, promise.or_else(|| ends.min()))
    }

    /// How many slots there are for each process that has some or waits. None if another one needs several.
    fn share(&self, line: &str, (permits, process): (u32, Process), now: Instant) -> u32 {
        let held = (0..permits).filter_map(|slot| self.key(&format!("{line}{slot}"), now));
        // What is no owner's counts as one process.
        let held = held.map(|held| held.owner.filter(|owner| *owner != Owner::READERS));
        let held = held.map(|owner| owner.map(Owner::process));
        let queue = self.queues.get(line).into_iter();
        let others = queue.flat_map(|queue| queue.places.values());
        let mut others = others.filter(|place| place.process != process);
        let waiting = others.clone().map(|place| Some(place.process));
        let all: BTreeSet<_> = held.chain(waiting).chain([Some(process)]).collect();
        let is_needed = others.any(|place| place.mode == Mode::Exclusive);
        permits / all.len() as u32 * u32::from(!is_needed)
    }

    fn queue_or_new(&mut self, key: &Arc<str>, now: Instant) -> &mut Queue {
        let queue = self.queues.entry(Arc::clone(key)).or_default();
        queue.expires = Some(now.after(Ticket::LASTS));
        queue
    }

    /// The owner gets the lock. Whether others wait.
    pub(super) fn pass(&mut self, vote: &Vote, standing: Standing, at: Moment) -> bool {
        let ticket = standing.ticket;
        let queue = self.queue(&vote.key, at.now);
        let is_waited_for = queue.is_some_and(|queue| {
            queue.pass(vote, standing, ticket.is_ordered);
            queue.places.values().any(|place| place.excludes(vote.mode))
        });
        // The other nodes may still refuse it, while the last holder's release is on its way. Without the place,
        // whoever asked before its next attempt would come first.
        if ticket.is_ordered && vote.mode == Mode::Exclusive {
            self.stand(vote, standing, false, at);
        }
        is_waited_for
    }

    /// Another process has a place, or had one a moment ago.
    pub(super) fn is_waited_for(&mut self, vote: &Vote, now: Instant) -> bool {
        let queue = self.queue(line_of(&vote.key).unwrap_or(&vote.key), now);
        let process = vote.owner.process();
        queue.is_some_and(|queue| queue.places.keys().any(|other| *other != process))
    }

    /// The key is released, and with a slot the place in its line.
    pub(super) fn leave_with(&mut self, key: &str, leaves: bool, process: Process) {
        if leaves {
            self.leave(key, process);
        }
        let Some(line) = line_of(key) else {
            return;
        };
        if let (Some(queue), Ok(slot)) = (self.queues.get_mut(line), key[line.len()..].parse()) {
            queue.promised.remove(&slot);
        }
        self.leave(line, process);
        self.keys.remove(line);
    }

    pub(super) fn leave(&mut self, key: &str, process: Process) {
        if let Some(queue) = self.queues.get_mut(key) {
            // Those ahead need their whole time from here on, whatever of it had passed before.
            queue.free = None;
        }
        self.give_up(key, process);
    }

    fn give_up(&mut self, key: &str, process: Process) {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.places.remove(&process);
            // A slot that is left to a process stays so, even if nobody waits any more.
            if queue.places.is_empty() && queue.promised.is_empty() {
                self.queues.remove(key);
            }
        }
    }

    fn queue(&mut self, key: &str, now: Instant) -> Option<&mut Queue> {
        if self.queues.get(key)?.expires <= Some(now) {
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

impl Queue {
    /// The owner gets the lock. Those that it passes may be gone: who is not takes its place again.
    fn pass(&mut self, vote: &Vote, standing: Standing, passes: bool) {
        let process = vote.owner.process();
        self.free = None;
        self.places.remove(&process);
        let is_passed = |place: &Place| place.is_before(process, standing.since, vote.mode);
        self.places.retain(|_, place| !(passes && is_passed(place)));
    }
}

/// One that lasts longer than any place can was made before the clock was set back.
fn lasts(until: i64, now: i64) -> bool {
    now < until && until <= now + millis(Ticket::LASTS)
}

/// Of the node's clock, which scripts round down.
const fn whole_millis(now: Instant) -> i64 {
    (now.as_nanos() / 1_000_000) as i64
}

/// Rounded up, as scripts are given it.
fn millis(span: Duration) -> i64 {
    time::millis(span).min(1 << 52) as i64
}
