//! A critical section while its holder has the lock: its lease, and when it is renewed.

use std::time::Duration;

use crate::{
    action::{Answer, Verdict},
    message::{Owner, SectionId},
    rules::{backoff::jitter, validity::LockParams},
    time::Instant,
};

/// A failed renewal is tried again after a quarter of what is left of the lease, but not sooner
/// than this, so that a lease near its end does not turn into a busy loop.
const RENEWAL_FLOOR: Duration = Duration::from_millis(10);

/// A critical section while its holder has the lock.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) id: SectionId,
    pub(super) params: LockParams,
    pub(super) deadline: Instant,
    /// From when `max_hold` counts.
    acquired: Instant,
    pub(super) granted: Instant,
    /// From one renewal to the next.
    renew_every: Option<Duration>,
    pub(super) renew_at: Option<Instant>,
    /// The holder has asked for a fresh lease.
    pub(super) wants_extension: bool,
    /// What each node said in the last round that did not extend the lease.
    pub(super) failed: Vec<Verdict>,
}

impl Section {
    /// A lease that counts from `acquired`.
    pub(super) fn new(
        id: SectionId,
        params: LockParams,
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
            params,
            deadline: params.deadline(acquired, acquired),
            acquired,
            granted: now,
            renew_every,
            renew_at: renew_every.map(|interval| acquired.after(interval)),
            wants_extension: false,
            failed: Vec::new(),
        }
    }

    /// A round that was started then has let the keys live for longer.
    pub(super) fn on_extended(&mut self, started: Instant) -> Option<Answer> {
        if self.renew_every.is_none() && !self.wants_extension {
            return None;
        }
        self.wants_extension = false;
        self.failed.clear();
        self.renew_at = self.renew_every.map(|interval| started.after(interval));
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
