//! What was locked on a node set, for the assertions of a test.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redlock_protocol::{Instant, Loss, SectionId};
use tokio::sync::Notify;

use crate::engine::Status;

/// Every section of one node set that has asked for a lock, in the order of asking.
#[derive(Debug)]
pub(crate) struct Journal {
    began: Instant,
    entries: Mutex<Entries>,
    granted: Notify,
}

#[derive(Debug, Default)]
struct Entries {
    of_sections: Vec<Entry>,
    /// How many locks were granted.
    granted: u64,
}

/// One section.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    section: SectionId,
    /// As on the nodes, key prefix included.
    pub(crate) key: Arc<str>,
    pub(crate) name: Option<&'static str>,
    pub(crate) status: Arc<Status>,
    /// Since the node set was made.
    pub(crate) asked: Duration,
    /// When, and which of all grants it was.
    pub(crate) granted: Option<(Duration, u64)>,
    pub(crate) end: Option<(Duration, Outcome)>,
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
    pub(crate) fn new(began: Instant) -> Self {
        Self {
            began,
            entries: Mutex::default(),
            granted: Notify::new(),
        }
    }

    pub(crate) fn ask(&self, status: &Arc<Status>, now: Instant) {
        let entry = Entry {
            section: status.section,
            key: Arc::clone(&status.subject.key),
            name: status.subject.name,
            status: Arc::clone(status),
            asked: now.since(self.began),
            granted: None,
            end: None,
        };
        self.entries().of_sections.push(entry);
    }

    pub(crate) fn grant(&self, section: SectionId, now: Instant) {
        let mut entries = self.entries();
        entries.granted += 1;
        let granted = (now.since(self.began), entries.granted);
        if let Some(entry) = entries.find(section) {
            entry.granted = Some(granted);
        }
        drop(entries);
        self.granted.notify_waiters();
    }

    /// Waits until `is_so`, which is asked now and after every grant.
    pub(crate) async fn when(&self, mut is_so: impl FnMut() -> bool) {
        loop {
            let mut granted = std::pin::pin!(self.granted.notified());
            // Registered before the look, so that a grant in between is not missed.
            granted.as_mut().enable();
            if is_so() {
                return;
            }
            granted.await;
        }
    }

    pub(crate) fn fail(&self, section: SectionId, now: Instant, error: String) {
        let at = now.since(self.began);
        if let Some(entry) = self.entries().find(section) {
            entry.end = Some((at, Outcome::Failed { error }));
        }
    }

    /// The caller is done, whether it has had the lock or not. To be called before the status is told.
    pub(crate) fn end(&self, section: SectionId, now: Instant) {
        let at = now.since(self.began);
        if let Some(entry) = self.entries().find(section)
            && entry.end.is_none()
        {
            entry.end = Some((at, entry.end_of(now)));
        }
    }

    pub(crate) fn entries_now(&self) -> Vec<Entry> {
        self.entries().of_sections.clone()
    }

    /// Forgets what has ended.
    pub(crate) fn clear(&self) {
        self.entries()
            .of_sections
            .retain(|entry| entry.end.is_none());
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn find(&mut self, section: SectionId) -> Option<&mut Entry> {
        let mut entries = self.of_sections.iter_mut().rev();
        entries.find(|entry| entry.section == section)
    }
}

impl Entry {
    /// What has become of it by now.
    pub(crate) fn outcome(&self, is_held: bool) -> Outcome {
        match (&self.end, self.granted, self.status.loss()) {
            (Some((_, end)), ..) => end.clone(),
            (None, None, _) => Outcome::Waiting,
            (None, Some(_), None) if is_held => Outcome::Held,
            (None, Some(_), Some(Loss::Lost { .. })) => Outcome::Lost,
            (None, Some(_), Some(Loss::Stopped)) => Outcome::Stopped,
            (None, Some(_), _) => Outcome::Expired,
        }
    }

    fn end_of(&self, now: Instant) -> Outcome {
        match self.outcome(self.status.is_held(now)) {
            Outcome::Waiting => Outcome::Cancelled,
            Outcome::Held => Outcome::Released,
            end => end,
        }
    }
}
