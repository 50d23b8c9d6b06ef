//! What was locked on a node set, for the assertions of a test.

use std::sync::Arc;

use redlock_protocol::Instant;
use tokio::sync::watch;

use super::fact::End;
use crate::{error::LockError, status::Status};

/// Every section of one node set that has asked for a lock, in the order of asking.
#[derive(Debug, Default)]
pub(crate) struct Journal(watch::Sender<Entries>);

#[derive(Debug, Default)]
struct Entries {
    of_sections: Vec<Entry>,
    /// How many locks were granted.
    granted: u64,
}

/// One section.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) status: Arc<Status>,
    /// When, and which of all grants it was.
    pub(crate) granted: Option<(Instant, u64)>,
    pub(crate) end: Option<(Instant, Outcome)>,
}

/// What has become of an [`Acquisition`](crate::testing::Acquisition).
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It waits for the lock.
    Waiting,
    /// It holds the lock.
    Held,
    /// It held the lock and let go of it.
    Released,
    /// The lock was lost while it was held.
    Lost,
    /// The lease ran out while the lock was held.
    Expired,
    /// The node set was shut down while the lock was held.
    Stopped,
    /// The caller gave up before it had the lock: its future was dropped.
    Cancelled,
    /// It did not get the lock.
    Failed {
        /// The text of the error.
        error: String,
    },
}

impl Journal {
    pub(super) fn asked(&self, status: &Arc<Status>) {
        let entry = Entry {
            status: Arc::clone(status),
            granted: None,
            end: None,
        };
        self.0
            .send_modify(|entries| entries.of_sections.push(entry));
    }

    pub(super) fn answered(&self, status: &Status, outcome: &Result<(), LockError>, now: Instant) {
        self.0.send_modify(|entries| {
            entries.granted += u64::from(outcome.is_ok());
            let granted = entries.granted;
            match (entries.find(status), outcome) {
                (Some(entry), Ok(())) => entry.granted = Some((now, granted)),
                (Some(entry), Err(error)) => {
                    let error = error.to_string();
                    entry.end = Some((now, Outcome::Failed { error }));
                }
                (None, _) => {}
            }
        });
    }

    /// Waits until `is_so`, which is asked now and after every change.
    pub(crate) async fn when(&self, is_so: impl Fn() -> bool) {
        let mut entries = self.0.subscribe();
        while !is_so() && entries.changed().await.is_ok() {}
    }

    /// The caller is done, whether it has had the lock or not.
    pub(super) fn ended(&self, status: &Status, now: Instant) {
        self.0.send_modify(|entries| {
            if let Some(entry) = entries.find(status) {
                let end = match entry.outcome(now) {
                    Outcome::Waiting => Outcome::Cancelled,
                    Outcome::Held => Outcome::Released,
                    end => end,
                };
                entry.end = Some((now, end));
            }
        });
    }

    pub(crate) fn entries_now(&self) -> Vec<Entry> {
        self.0.borrow().of_sections.clone()
    }

    /// Forgets what has ended.
    pub(crate) fn clear(&self) {
        self.0
            .send_modify(|entries| entries.of_sections.retain(|entry| entry.end.is_none()));
    }
}

impl Entries {
    fn find(&mut self, status: &Status) -> Option<&mut Entry> {
        let mut entries = self.of_sections.iter_mut().rev();
        entries.find(|entry| entry.status.section == status.section)
    }
}

impl Entry {
    /// What has become of it by now.
    pub(crate) fn outcome(&self, now: Instant) -> Outcome {
        if let Some((_, end)) = &self.end {
            return end.clone();
        }
        if self.granted.is_none() {
            return Outcome::Waiting;
        }
        match End::of_lease(&self.status, now) {
            None => Outcome::Held,
            Some(End::Lost) => Outcome::Lost,
            Some(End::Stopped) => Outcome::Stopped,
            Some(_) => Outcome::Expired,
        }
    }
}
