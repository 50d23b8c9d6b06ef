//! Who is next: one line per key, in the order of asking, and one of its leases at the head.
//!
//! However many tasks of this process want a key, only the head talks to the nodes. The pause
//! between two attempts of a head decides how it fares against other processes.

use std::{collections::BTreeMap, time::Duration};

use super::{
    action::{Cause, Refusal},
    link::spread,
    message::LeaseId,
};

/// The pause after the first lost attempt; doubled with every further one.
const FIRST_PAUSE: Duration = Duration::from_millis(4);

/// The longest pause between attempts: how long a lock may stand free unnoticed.
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// A node drops an expired key on its own clock; asking a moment later finds it gone.
const AFTER_EXPIRY: Duration = Duration::from_millis(1);

/// The leases of one key.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) head: LeaseId,
    /// By the order of asking; a lease anywhere in the line can leave it cheaply.
    waiting: BTreeMap<u64, LeaseId>,
    /// Why the last attempt of a head failed: what a lease that gives up further back reports.
    pub(super) last_refusal: Option<Refusal>,
}

impl Line {
    pub(super) const fn new(head: LeaseId) -> Self {
        Self {
            head,
            waiting: BTreeMap::new(),
            last_refusal: None,
        }
    }

    pub(super) fn join(&mut self, order: u64, lease: LeaseId) {
        self.waiting.insert(order, lease);
    }

    pub(super) fn leave(&mut self, order: u64) {
        self.waiting.remove(&order);
    }

    /// Makes the next in line the head.
    pub(super) fn advance(&mut self) -> Option<LeaseId> {
        let (_, next) = self.waiting.pop_first()?;
        self.head = next;
        Some(next)
    }
}

/// How long the head waits before its next attempt: longer each time and never twice the same,
/// so that processes that collided do not collide again, but not beyond the moment at which the
/// present holder's key expires.
pub(super) fn pause(lost_attempts: u32, refusal: &Refusal, random: u128) -> Duration {
    let longest = FIRST_PAUSE
        .saturating_mul(1 << lost_attempts.saturating_sub(1).min(10))
        .min(LONGEST_PAUSE);
    let pause = longest / 2 + spread(longest / 2, random);
    match refusal.cause {
        Cause::Contended {
            retry_after: Some(expiry),
        } => pause.min(expiry + AFTER_EXPIRY),
        _ => pause,
    }
}
