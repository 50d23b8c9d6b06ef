//! What a key knows of other processes that want it. No other process ever asks for most keys, and a process
//! may hold a hundred thousand, so this is in a box that is made when a lock cannot be had at once.

use super::{Key, permits};
use crate::{action::Refusal, message::Ticket, time::Instant};

#[derive(Debug, Default)]
pub(super) struct Contention {
    /// Others wait, or have waited a moment ago. So long this process asks in their order, too: otherwise it
    /// would be the first to ask for what it has just released.
    in_order_until: Option<Instant>,
    /// The lock is left to clients of other libraries until then.
    pub(super) stand_back_until: Option<Instant>,
    /// Since when this process waits: its place in the queue, unless the lock is fair.
    arrival: Option<Instant>,
    /// The end of its last turn: who has had one stands at the end of the queue.
    last_turn: Option<Instant>,
    /// Callers wait here for a permit.
    pub(super) line: Option<Box<permits::Line>>,
    /// It is a permit that one of this process has or asks for.
    pub(super) slot: Option<permits::Slot>,
    /// To other keys of the same lock.
    pub(super) moves: Vec<permits::Move>,
    /// Why the last attempt failed: what a waiter is told that gives up.
    pub(super) last_refusal: Option<Refusal>,
}

impl Contention {
    /// This process has its turn.
    pub(super) fn on_own_turn(&mut self, is_part: bool) {
        // The reason of an earlier outage says nothing of the next refusal.
        self.last_refusal = None;
        self.arrival = None;
        // Who waits for this process comes after it, so it goes on in order. But one of several keys in order would make
        // an attempt of all of them wait for each.
        self.in_order_until.take_if(|_| is_part);
    }

    /// Its turn is over, and others wait.
    pub(super) fn on_turn_end(&mut self, now: Instant) {
        self.last_turn = Some(now);
        self.is_met(now);
    }

    /// Others wait.
    pub(super) fn is_met(&mut self, now: Instant) {
        // No place in the queue lasts for longer without another question.
        self.in_order_until = Some(now.after(Ticket::LASTS));
    }

    /// Since when this process waits, if it begins to do so with a waiter that called then.
    pub(super) fn arrive(&mut self, since: Instant) -> Instant {
        // Who has had a turn is behind those that came before its end, however early its callers called.
        let since = self.last_turn.map_or(since, |last| since.max(last));
        *self.arrival.get_or_insert(since)
    }

    /// Nobody waits here any more.
    pub(super) const fn leave(&mut self) {
        self.arrival = None;
    }

    fn next_due(&self) -> Option<Instant> {
        self.in_order_until.max(self.stand_back_until)
    }

    pub(super) fn advance(&mut self, now: Instant) {
        self.in_order_until.take_if(|until| *until <= now);
        self.stand_back_until.take_if(|until| *until <= now);
    }
}

impl Key {
    pub(super) fn contention(&mut self) -> &mut Contention {
        self.contention.get_or_insert_default()
    }

    /// Others wait for it, or have done so a moment ago.
    pub(crate) fn is_contested(&self) -> bool {
        let contention = self.contention.as_ref();
        contention.is_some_and(|contention| contention.in_order_until.is_some())
    }

    /// The process has had its share, and leaves the lock to others until then.
    pub(super) fn stand_back_until(&self) -> Option<Instant> {
        self.contention.as_ref()?.stand_back_until
    }

    /// Until when something must be remembered of others.
    pub(super) fn remembers_until(&self) -> Option<Instant> {
        self.contention.as_ref()?.next_due()
    }

    pub(super) fn last_refusal(&self) -> &Refusal {
        static NONE: Refusal = Refusal::CONTENDED;
        let contention = self.contention.as_ref();
        let last = contention.and_then(|contention| contention.last_refusal.as_ref());
        last.unwrap_or(&NONE)
    }
}
