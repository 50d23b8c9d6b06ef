//! A node set for one test: how it is made, and what it remembers.

use std::{fmt, ops::Deref, sync::Arc};

use redlock_protocol::Instant;

use super::{
    acquisition::{Acquisition, without},
    node::TestNode,
};
use crate::{
    builder::{self, Builder},
    config::{ConfigError, ConfigProblem, Node, count_problem},
    node::{Memory, Target},
    observe::journal::{Entry, Journal, Outcome},
    redlock::Redlock,
};

/// The node set of one test: a [`Redlock`] whose nodes fail on demand, and which knows what was
/// locked on it.
///
/// Its nodes are in memory, and no other node set has them. Its engine is a task of the runtime that
/// it was made in, goes by the clock of that runtime, and draws the same random numbers in every run:
/// in a `#[tokio::test(start_paused = true)]` leases, waiting and faults take no time and happen in
/// the same order each time. Only the values of fencing tokens differ, because they grow from one run
/// to the next, as those of servers do.
///
/// The nodes vote at once. A node that is [restarted](TestNode::restart) or
/// [flushed](TestNode::flush) does not vote until all locks that it may have forgotten have expired,
/// like a server.
pub struct TestRedlock {
    pub(super) redlock: Redlock,
    pub(super) nodes: Vec<Arc<Memory>>,
    began: Instant,
}

impl Redlock {
    /// Makes a node set of three nodes for one test, with the default settings. It does not wait for
    /// anything. [`Builder::test`] makes one with other settings. Needs the feature `test-util`.
    ///
    /// Annotated functions use it after [`enter`](Self::enter) or within [`scope`](Self::scope).
    ///
    /// ```
    /// use redlock_runtime::{LockError, Redlock, redis_lock};
    ///
    /// #[redis_lock(key = "stock:{sku}", expire = 5)]
    /// async fn reserve(sku: u64) -> Result<u64, LockError> {
    ///     Ok(sku)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let redlock = Redlock::test();
    /// let _entered = redlock.enter();
    ///
    /// reserve(7).await.unwrap();
    /// redlock.assert_locked(["stock:7"]);
    ///
    /// let other = redlock.held_elsewhere("stock:7");
    /// assert!(matches!(reserve(7).await, Err(LockError::Contended(_))));
    /// drop(other);
    /// reserve(7).await.unwrap();
    /// # }
    /// ```
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    #[track_caller]
    pub fn test() -> TestRedlock {
        match Self::builder().test(3) {
            Ok(redlock) => redlock,
            Err(error) => panic!("{error}"),
        }
    }
}

impl Builder {
    /// Makes a node set for one test: `nodes` nodes in memory instead of those that the builder
    /// names, and everything else as it says. The engine runs in the runtime of the caller. It does not wait for
    /// anything. Needs the feature `test-util`.
    ///
    /// ```
    /// # use redlock_runtime::{Builder, Redlock};
    /// # use std::time::Duration;
    /// /// What production and tests share.
    /// fn settings() -> Builder {
    ///     Redlock::builder().key_prefix("shop:").expire(Duration::from_secs(2))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock_runtime::ConfigError> {
    /// let redlock = settings().test(5)?;
    /// let guard = redlock.lock("stock:7").acquire().await.unwrap();
    /// assert_eq!(guard.key(), "shop:stock:7");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Everything that is wrong with the settings, at once; [`NoNodes`](crate::ProblemKind::NoNodes) and
    /// [`BadOption`](crate::ProblemKind::BadOption); [`NoEngine`](crate::ProblemKind::NoEngine) outside of a tokio runtime.
    pub fn test(self, nodes: usize) -> Result<TestRedlock, ConfigError> {
        let settings = self.settings;
        let mut problems = settings.problems();
        problems.extend(count_problem(nodes));
        if tokio::runtime::Handle::try_current().is_err() {
            let fact = "there is no tokio runtime here; use `#[tokio::test]`";
            problems.push(ConfigProblem::no_engine(fact));
        }
        ConfigError::unless_empty(problems)?;
        let address = |node| format!("test://{node}");
        let memory = |node| Arc::new(Memory::new(address(node), true));
        let nodes: Vec<_> = (0..nodes).map(memory).collect();
        let targets = nodes.iter().enumerate().map(|(node, memory)| Node {
            address: address(node).into(),
            target: Target::Memory(Arc::clone(memory)),
        });
        let redlock = builder::start(targets.collect(), settings, true)?;
        Ok(TestRedlock {
            began: redlock.shared.engine.now(),
            redlock,
            nodes,
        })
    }
}

impl TestRedlock {
    /// Returns the node at this position, from zero.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    #[track_caller]
    pub fn node(&self, index: usize) -> TestNode {
        let count = self.nodes.len();
        let Some(node) = self.nodes.get(index).map(Arc::clone) else {
            panic!("there is no node {index}; the first of {count} is node 0");
        };
        let redlock = self.redlock.clone();
        TestNode {
            node,
            index,
            redlock,
        }
    }

    /// Returns all nodes, in order.
    pub fn each_node(&self) -> impl Iterator<Item = TestNode> {
        (0..self.nodes.len()).map(|index| self.node(index))
    }

    /// Returns every call that has asked for a lock on this node set, in the order of asking, since it was made or
    /// since [`clear_history`](Self::clear_history).
    ///
    /// ```
    /// # use redlock_runtime::{Redlock, testing::Outcome};
    /// # use std::time::Duration;
    /// # use tokio::time::sleep;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let redlock = Redlock::test();
    /// let body = async |_| sleep(Duration::from_secs(2)).await;
    /// redlock.lock("report").hold(body).await.unwrap();
    ///
    /// let history = redlock.history();
    /// assert_eq!(history[0].outcome, Outcome::Released);
    /// assert_eq!(history[0].ended.unwrap().as_secs(), 2);
    /// # }
    /// ```
    #[must_use]
    pub fn history(&self) -> Vec<Acquisition> {
        let (prefix, now) = (self.prefix(), self.shared.engine.now());
        let acquisition = |entry: Entry| Acquisition {
            key: without(prefix, entry.status.key()),
            name: entry.status.name,
            asked: entry.status.since.since(self.began),
            granted: entry.granted.map(|(at, _)| at.since(self.began)),
            ended: entry.end.as_ref().map(|(at, _)| at.since(self.began)),
            outcome: entry.outcome(now),
        };
        self.entries().into_iter().map(acquisition).collect()
    }

    /// Forgets what was locked, except for what is held or waited for.
    pub fn clear_history(&self) {
        if let Some(journal) = self.journal() {
            journal.clear();
        }
    }

    /// Returns the keys that were locked, once for each time, in the order in which the callers got their locks.
    #[must_use]
    pub fn locked(&self) -> Vec<String> {
        let mut granted: Vec<(u64, String)> = self
            .entries()
            .iter()
            .filter_map(|entry| {
                let (_, rank) = entry.granted?;
                Some((rank, without(self.prefix(), entry.status.key())))
            })
            .collect();
        granted.sort_unstable();
        granted.into_iter().map(|(_, key)| key).collect()
    }

    /// Returns true if this lock is held on this node set now: granted, not released, not known to be lost, and before
    /// its deadline. A client [elsewhere](Self::held_elsewhere) does not count.
    #[must_use]
    pub fn is_locked(&self, key: &str) -> bool {
        !self.held(key).is_empty()
    }

    /// The key as it stands on the nodes.
    pub(super) fn on_nodes(&self, key: &str) -> Arc<str> {
        format!("{}{key}", self.redlock.shared.settings.key_prefix).into()
    }

    /// Those that hold this lock.
    pub(super) fn held(&self, key: &str) -> Vec<Entry> {
        let (key, now) = (self.on_nodes(key), self.shared.engine.now());
        let mut entries = self.entries();
        entries.retain(|entry| **entry.status.key() == *key && entry.outcome(now) == Outcome::Held);
        entries
    }

    fn entries(&self) -> Vec<Entry> {
        self.journal().map(Journal::entries_now).unwrap_or_default()
    }

    pub(super) fn journal(&self) -> Option<&Journal> {
        self.shared.observer.journal.as_ref()
    }

    fn prefix(&self) -> &str {
        &self.shared.settings.key_prefix
    }
}

impl Deref for TestRedlock {
    type Target = Redlock;

    fn deref(&self) -> &Redlock {
        &self.redlock
    }
}

impl fmt::Debug for TestRedlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestRedlock")
            .field("nodes", &self.nodes.len())
            .field("history", &self.history())
            .finish()
    }
}
