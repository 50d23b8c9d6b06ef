//! A critical section while its holder has the lock: its lease, and when it is renewed.

use std::{sync::Arc, time::Duration};

use crate::{
    action::Answer,
    message::{Mode, Owner, SectionId},
    rules::{
        backoff::jitter,
        token::Token,
        validity::{LeaseParams, LockParams},
    },
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
    pub(super) renew_at: Option<Instant>,
    /// What the holder wants a fresh lease by.
    pub(super) wanted: Option<Box<Wish>>,
    /// The nodes are to give no token up to this one any more.
    pub(super) raise_to: Token,
    pub(super) note: Option<Box<Note>>,
}

/// A section that has been told that its lease is over, and has not let go.
#[derive(Debug)]
pub(super) struct Over {
    pub(super) id: SectionId,
    /// Of its turn.
    pub(super) owner: Owner,
    /// The keys would have expired, had nobody but it asked for them.
    pub(super) until: Instant,
}

/// What a section says to those who look at the lock.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) text: Arc<str>,
    /// A round has begun that asks the nodes to.
    pub(super) is_asked: bool,
}

/// For a fresh lease.
#[derive(Debug)]
pub(super) struct Wish {
    params: Arc<LockParams>,
    /// When the first came that is not fulfilled.
    pub(super) since: Instant,
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
        let mut section = Self {
            id,
            // From when the nodes were asked, not from the grant: other sections may have used up some of it.
            deadline: params.deadline(acquired, acquired),
            params,
            acquired,
            granted: now,
            renew_at: None,
            wanted: None,
            raise_to: Token::default(),
            note: None,
        };
        section.renew_after(acquired, owner);
        section
    }

    /// What is left of it in a turn of this owner once it has been told that its lease is over.
    pub(super) fn over(self, owner: Owner) -> Over {
        let until = self
            .deadline
            .after(self.params.key_ttl() - self.params.lease);
        Over {
            id: self.id,
            owner,
            until,
        }
    }

    /// Up to an eighth sooner than asked for, each lock by its own part: so that thousands which were
    /// acquired at once are not for ever renewed at once.
    fn renew_after(&mut self, start: Instant, owner: Owner) {
        let interval = self.params.renew;
        let sooner = |interval: Duration| interval - jitter(interval / 8, owner.0);
        self.renew_at = interval.map(|interval| on_grid(start, sooner(interval), owner));
    }

    /// `max_hold` counts from now.
    pub(super) fn limit_hold(&mut self, max_hold: Option<Duration>, now: Instant) {
        if max_hold.is_some() {
            self.acquired = now;
            Arc::make_mut(&mut self.params).max_hold = max_hold;
        }
    }

    pub(super) fn stop_renewing(&mut self) {
        // A copy of its own: callers with the same options share one.
        Arc::make_mut(&mut self.params).renew = None;
        self.renew_at = None;
    }

    /// The holder wants a fresh lease. Of several wishes at a time, one round fulfils the longest.
    pub(super) fn want(&mut self, lease: Option<LeaseParams>, now: Instant) {
        let mut params = Arc::clone(&self.params);
        let is_of_use =
            |lease: &LeaseParams| self.params.renew.is_none() || lease.length > self.params.lease;
        if let Some(LeaseParams { length, guard_band }) = lease.filter(is_of_use) {
            let params = Arc::make_mut(&mut params);
            (params.lease, params.guard_band) = (length, guard_band);
        }
        let wanted = self.wanted.get_or_insert_with(|| {
            Box::new(Wish {
                params: Arc::clone(&params),
                since: now,
            })
        });
        // One round fulfils all wishes, so it asks for the longest.
        if wanted.params.lease <= params.lease {
            wanted.params = params;
        }
    }

    /// It is a reader from now on.
    pub(super) fn share(&mut self, now: Instant) {
        let params = Arc::make_mut(&mut self.params);
        (params.mode, params.is_fair) = (Mode::Shared, false);
        // What was wished for was for a lock that it had alone.
        self.wanted = None;
        self.want(None, now);
    }

    /// What a round asks of the nodes: no less than the holder wants or has been told, because a node that gets the
    /// key by this round counts for the whole lease.
    pub(super) fn asks(&self, now: Instant) -> Arc<LockParams> {
        let wanted = self.wanted.iter().map(|wish| &wish.params);
        let longest = wanted
            .chain([&self.params])
            .max_by_key(|params| params.key_ttl());
        let mut longest = Arc::clone(longest.unwrap_or(&self.params));
        // `extend_to` may have promised more than the usual lease, and no node may keep the key for less.
        let left = self.deadline.since(now);
        if left > longest.lease {
            Arc::make_mut(&mut longest).lease = left;
        }
        longest
    }

    /// A round that was started then has let the keys live for as long as `asked` says.
    pub(super) fn on_extended(
        &mut self,
        started: Instant,
        asked: &LockParams,
        owner: Owner,
    ) -> Option<Answer> {
        // It began before the holder asked for more: the next one follows at once.
        let is_too_short =
            |wish: &Wish| wish.params.key_ttl() > asked.key_ttl() || wish.params.mode != asked.mode;
        let is_unasked = self.params.renew.is_none() && self.wanted.is_none();
        if is_unasked || self.wanted.as_deref().is_some_and(is_too_short) {
            return None;
        }
        let params = self
            .wanted
            .take()
            .map_or_else(|| Arc::clone(&self.params), |wish| wish.params);
        self.renew_after(started, owner);
        // Never shorter than before: a cap by `max_hold` may have left nothing to add.
        let deadline = params.deadline(started, self.acquired);
        self.deadline = self.deadline.max(deadline);
        let deadline = self.deadline;
        Some(Answer::Extended { deadline })
    }

    /// No node has been asked to keep its note.
    pub(super) fn has_new_note(&self) -> bool {
        self.note.as_ref().is_some_and(|note| !note.is_asked)
    }

    /// A round begins that asks the nodes to keep its note.
    pub(super) fn asks_for_note(&mut self) -> Option<Arc<str>> {
        let note = self.note.as_mut()?;
        note.is_asked = true;
        Some(Arc::clone(&note.text))
    }

    /// A round found no majority. Whether the holder has asked.
    pub(super) fn on_not_extended(&mut self, now: Instant) -> bool {
        if self.params.renew.is_some() {
            // Several tries fit into what is left of the lease.
            let pause = (self.deadline.since(now) / 4).max(RENEWAL_FLOOR);
            self.renew_at = Some(now.after(pause));
        }
        self.wanted.take().is_some()
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
