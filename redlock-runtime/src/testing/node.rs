//! One node of a test, and what can befall it.

use std::{sync::Arc, time::Duration};

use crate::{
    node::{Behavior, Memory},
    redlock::Redlock,
};

/// One node of a [`TestRedlock`](super::TestRedlock). A handle: it can be cloned and sent to other
/// tasks.
///
/// A lock needs a majority of nodes, so that one of three may fail in whatever way:
///
/// ```
/// # use redlock_runtime::{LockError, Redlock};
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let redlock = Redlock::test();
/// redlock.node(0).unreachable();
/// redlock.lock("a").acquire().await.unwrap();
///
/// redlock.node(1).unresponsive();
/// let error = redlock.lock("b").acquire().await.unwrap_err();
/// assert!(matches!(error, LockError::NoQuorum(_)));
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TestNode {
    pub(super) node: Arc<Memory>,
    pub(super) index: usize,
    pub(super) redlock: Redlock,
}

impl TestNode {
    /// Returns the node's address, as errors name it.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.redlock.shared.addresses[self.index]
    }

    /// Breaks its connection and refuses new ones, until it is [healed](Self::heal). Its memory stays.
    pub fn unreachable(&self) {
        self.node.behave(Behavior::Unreachable);
    }

    /// Takes requests, carries out none and answers none, until it is [healed](Self::heal): it is
    /// found out by the [node timeout](crate::Builder::node_timeout).
    pub fn unresponsive(&self) {
        self.node.behave(Behavior::Unresponsive);
    }

    /// Carries out requests, and lets every reply come `late`, until it is [healed](Self::heal).
    pub fn slow(&self, late: Duration) {
        self.node.behave(Behavior::Delayed(late));
    }

    /// Carries out the next `count` requests and loses their replies.
    pub fn lose_replies(&self, count: usize) {
        self.node.lose_replies(count);
    }

    /// Lets it answer as before. If its connection was broken, the engine makes a new one after the
    /// usual pause; [`healed`](Self::healed) waits for that.
    pub fn heal(&self) {
        self.node.behave(Behavior::Healthy);
        self.node.lose_replies(0);
    }

    /// Heals the node like [`heal`](Self::heal), and returns when it votes again.
    ///
    /// # Cancellation
    /// Dropping the future has no effect on the node.
    pub async fn healed(&self) {
        self.heal();
        let votes = || self.redlock.nodes()[self.index].is_up();
        // An engine that has ended changes nothing any more.
        let _ = self.redlock.shared.engine.when(votes).await;
    }

    /// Starts another server process in its place, with nothing in its memory: it loses the keys of
    /// all locks, and does not vote until all that it may have forgotten has expired.
    pub fn restart(&self) {
        self.node.restart(self.redlock.shared.engine.now());
    }

    /// Deletes all that it has, as `FLUSHALL` does: the keys of all locks, and its admission to the
    /// vote. It does not vote until all that it may have forgotten has expired.
    pub fn flush(&self) {
        self.node.flush();
    }

    /// Returns true if it has a key of this name, whoever set it. The name is without the key prefix of the node set. A
    /// lock is on all nodes that replied; if they were busy when it was acquired, on a majority at first, and on the
    /// others once it is [watched](crate::guarantees#promises).
    #[must_use]
    pub fn has_key(&self, key: &str) -> bool {
        let shared = &self.redlock.shared;
        let key = format!("{}{key}", shared.settings.key_prefix);
        self.node.key(&key, shared.engine.now()).is_some()
    }
}
