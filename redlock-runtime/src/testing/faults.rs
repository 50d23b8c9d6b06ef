//! What can befall a lock.

use redlock_protocol::{Loss, slot_key};

use super::{rival::HeldElsewhere, test_redlock::TestRedlock};
use crate::config::PERMITS;

impl TestRedlock {
    /// Lets another client hold `key` on all nodes from now on, until the returned value is dropped.
    ///
    /// If the key was locked on this node set, that lock is lost: its body is cut off with
    /// [`LockError::Lost`](crate::LockError::Lost) as soon as this task awaits something. A call
    /// that asks for it meanwhile waits, or gets [`LockError::Contended`](crate::LockError::Contended).
    ///
    /// ```
    /// # use redlock_runtime::{LockError, Redlock};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let redlock = Redlock::test();
    /// let guard = redlock.lock("report").acquire().await.unwrap();
    /// let other = redlock.held_elsewhere("report");
    /// assert!(matches!(guard.lost().await, LockError::Lost(_)));
    ///
    /// let wait = redlock.lock("report").wait(Duration::from_secs(5)).acquire();
    /// let (guard, ()) = tokio::join!(wait, async { drop(other) });
    /// assert!(guard.unwrap().is_held());
    /// # }
    /// ```
    ///
    /// Each of the [permits](crate::Lock::permits) of a lock has a key of its own, from `report#__redlock:0` on:
    ///
    /// ```
    /// # use redlock_runtime::{LockError, Redlock};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let redlock = Redlock::test();
    /// let report = redlock.lock("report").permits(2);
    /// let other = redlock.held_elsewhere("report#__redlock:0");
    /// let guard = report.clone().acquire().await.unwrap();
    /// assert!(matches!(report.clone().acquire().await, Err(LockError::Contended(_))));
    /// drop(other);
    /// assert!(report.acquire().await.is_ok() && guard.is_held());
    /// # }
    /// ```
    #[doc(alias = "steal")]
    pub fn held_elsewhere(&self, key: &str) -> HeldElsewhere {
        HeldElsewhere::new(self.redlock.clone(), self.nodes.clone(), self.on_nodes(key))
    }

    /// Deletes the key of a lock from all nodes, as an operator does by mistake: the holder gets
    /// [`LockError::Lost`](crate::LockError::Lost) as soon as this task awaits something. Of a lock with
    /// [permits](crate::Lock::permits) all are deleted.
    ///
    /// # Panics
    /// If the lock is not held.
    #[track_caller]
    pub fn delete_key(&self, key: &str) {
        self.assert_held(key);
        let key = self.on_nodes(key);
        for node in &self.nodes {
            node.delete(&key);
            for slot in 0..*PERMITS.end() {
                node.delete(&slot_key(&key, slot));
            }
        }
    }

    /// Ends the lease of a lock now, as if its time were up: the holder gets
    /// [`LockError::Expired`](crate::LockError::Expired) as soon as this task awaits something. With
    /// a paused clock, `tokio::time::advance` does the same for all leases that are so old.
    ///
    /// # Panics
    /// If the lock is not held.
    #[track_caller]
    pub fn expire_lease(&self, key: &str) {
        self.assert_held(key);
        for entry in self.held(key) {
            entry.status.end(Loss::Expired {
                verdicts: Vec::new(),
            });
        }
    }
}
