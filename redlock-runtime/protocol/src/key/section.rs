//! A critical section while its holder has the lock: its lease, and when it is renewed.

use std::{sync::Arc, time::Duration};

use crate::{
    action::{Answer, Verdict},
    message::{Owner, SectionId},
    rules::{backoff::jitter, token::Token, validity::LockParams},
    time::Instant,
};

/// A failed renewal is tried again after a quarter of what is left of the lease, but not sooner
/// than this, so that a lease near its end does not turn into a busy loop.
const RENEWAL_FLOOR: Duration = Duration::from_millis(10);

/// The renewals of a process fall on multiples of this, so that those of thousands of locks go out
/// together. Not so if they are so frequent that it would change their number.
const GRID: Duration = Duration::from_millis(20);

/// A critical section while its holder has the lock.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) id: SectionId,
    pub(super) params: Arc<LockParams>,
    pub(super) deadline: Instant,
    /// From when `max_hold` counts.
    acquired: Instant,
    pub(super) granted: Instant,
    /// From one renewal to the next.
    renew_every: Option<Duration>,
    pub(super) renew_at: Option<Instant>,
    /// The holder has asked for a fresh lease.
    pub(super) wants_extension: bool,
    /// The nodes are to give no token up to this one any more.
    pub(super) raise_to: Option<Token>,
    /// What each node said in the last round that did not extend the lease.
    pub(super) failed: Vec<Verdict>,
}

impl Section {
    /// A lease that counts from `acquired`.
    pub(super) fn new(
        id: SectionId,
        params: Arc<LockParams>,
        owner: Owner,
        acquired: Instant,
        now: Instant,
    ) -> Self {
        // Up to an eighth sooner than asked for, each lock by its own part: so that thousands which
        // were acquired at once are not for ever renewed at once.
        let sooner = |interval: Duration| interval - jitter(interval / 8, owner.0);
        let renew_every = params.renew.map(sooner);
        Self {
            id,
            deadline: params.deadline(acquired, acquired),
            params,
            acquired,
            granted: now,
            renew_every,
            renew_at: renew_every.map(|interval| on_grid(acquired, interval, owner)),
            wants_extension: false,
            raise_to: None,
            failed: Vec::new(),
        }
    }

    pub(super) const fn stop_renewing(&mut self) {
        (self.renew_every, self.renew_at) = (None, None);
    }

    /// A round that was started then has let the keys live for longer.
    pub(super) fn on_extended(&mut self, started: Instant, owner: Owner) -> Option<Answer> {
        if self.renew_every.is_none() && !self.wants_extension {
            return None;
        }
        self.wants_extension = false;
        self.failed.clear();
        self.renew_at = self
            .renew_every
            .map(|interval| on_grid(started, interval, owner));
        // Never shorter than before: a cap by `max_hold` may have left nothing to add.
        let deadline = self.params.deadline(started, self.acquired);
        self.deadline = self.deadline.max(deadline);
        let deadline = self.deadline;
        Some(Answer::Extended { deadline })
    }

    /// A round found no majority. What the holder is told, if it asked.
    pub(super) fn on_not_extended(
        &mut self,
        verdicts: Vec<Verdict>,
        now: Instant,
    ) -> Option<Answer> {
        if self.renew_every.is_some() {
            let pause = (self.deadline.since(now) / 4).max(RENEWAL_FLOOR);
            self.renew_at = Some(now.after(pause));
        }
        self.failed = verdicts;
        let asked = std::mem::take(&mut self.wants_extension);
        asked.then(|| Answer::NotExtended {
            verdicts: self.failed.clone(),
        })
    }
}

/// So much later, or up to the width of the grid sooner. Each process has a grid of its own, so that
/// processes of one machine do not ask at the same time.
fn on_grid(start: Instant, interval: Duration, owner: Owner) -> Instant {
    let at = start.after(interval);
    if interval < 16 * GRID {
        return at;
    }
    let grid = GRID.as_nanos() as u64;
    let phase = owner.process().0 % grid;
    let beyond = at.as_nanos().saturating_sub(phase) % grid;
    at.before(Duration::from_nanos(beyond))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewals_of_a_process_meet_and_come_no_later() {
        let interval = Duration::from_secs(10);
        let start = Instant::from_nanos(7_000_000_000);
        let owner = |process: u128, number: u128| Owner(process << 64 | number);
        let at = |millis, owner| {
            let start = start.after(Duration::from_millis(millis));
            let at = on_grid(start, interval, owner);
            let sooner = start.after(interval).since(at);
            assert!(at <= start.after(interval) && sooner < GRID);
            at
        };
        assert_eq!(at(3, owner(5, 1)), at(17, owner(5, 2)));
        assert_ne!(at(3, owner(5, 1)), at(3, owner(6, 1)));
        assert_ne!(at(3, owner(5, 1)), at(23, owner(5, 1)));
    }

    #[test]
    fn frequent_renewals_are_left_as_they_are() {
        let interval = Duration::from_millis(100);
        let start = Instant::from_nanos(7_000_001);
        assert_eq!(on_grid(start, interval, Owner(1)), start.after(interval));
    }
}
