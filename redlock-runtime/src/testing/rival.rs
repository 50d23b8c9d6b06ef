//! Another client that holds a lock.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{node::Memory, redlock::Redlock};

/// How many there have been: each has a value of its own under its key.
static CLIENTS: AtomicU64 = AtomicU64::new(0);

/// A key that another client holds on all nodes of a test, until this value is dropped: what
/// [`TestRedlock::held_elsewhere`](super::TestRedlock::held_elsewhere) returns.
#[must_use = "the other client lets go when this value is dropped"]
pub struct HeldElsewhere {
    redlock: Redlock,
    nodes: Vec<Arc<Memory>>,
    key: Arc<str>,
    owner: String,
}

impl HeldElsewhere {
    pub(super) fn new(redlock: Redlock, nodes: Vec<Arc<Memory>>, key: Arc<str>) -> Self {
        let held = Self {
            redlock,
            nodes,
            key,
            owner: format!("client {}", CLIENTS.fetch_add(1, Ordering::Relaxed)),
        };
        held.set(None);
        held
    }

    /// Lets the key expire after `ttl`, unless it is dropped before. Without this call it does not
    /// expire by itself.
    ///
    /// ```
    /// # use redlock_runtime::Redlock;
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let redlock = Redlock::test();
    /// let ttl = Duration::from_secs(3);
    /// let _other = redlock.held_elsewhere("report").expires_in(ttl);
    /// let error = redlock.lock("report").acquire().await.unwrap_err();
    /// assert_eq!(error.retry_after(), Some(ttl));
    /// tokio::time::advance(ttl).await;
    /// redlock.lock("report").acquire().await.unwrap();
    /// # }
    /// ```
    pub fn expires_in(self, ttl: Duration) -> Self {
        self.set(Some(ttl));
        self
    }

    fn set(&self, ttl: Option<Duration>) {
        let now = self.redlock.shared.engine.now();
        for node in &self.nodes {
            node.occupy(&self.key, &self.owner, ttl, now);
        }
    }
}

impl Drop for HeldElsewhere {
    fn drop(&mut self) {
        let now = self.redlock.shared.engine.now();
        for node in &self.nodes {
            node.vacate(&self.key, &self.owner, now);
        }
    }
}

impl fmt::Debug for HeldElsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldElsewhere")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
