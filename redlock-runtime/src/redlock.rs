//! The handle on a node set: what locks are made of, and how it is shut down.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};
pub use redlock_protocol::ShutdownError;
use redlock_protocol::{Verdict, Why};
use tokio::sync::oneshot;

use crate::{
    config::{Node, Options, SectionInfo},
    error::{LockError, Report},
    health::{Health, NodeState, NodeStatus, NotReady},
    inspect::{self, Breaking, Inspection},
    keys::Keys,
    lease::Lease,
    lock::{Lock, Member},
    nesting,
    node_set::Shared,
};

/// A set of independent Redis nodes, and the engine that talks to them.
///
/// A handle is cheap to clone; all clones share one engine. When the last handle and the last lock of the set are gone,
/// the engine finishes the pending releases and ends.
///
/// Most applications have one node set: [`Builder::install`](crate::Builder::install) makes it, and annotated functions
/// use it without naming it. [`Builder::build`](crate::Builder::build) makes others, for `via = ...` in the attribute
/// or for direct use:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redlock_runtime::Redlock;
/// use std::time::Duration;
///
/// let redlock = Redlock::builder()
///     .nodes(["memory://a", "memory://b", "memory://c"])
///     .build()
///     .await?;
/// let guard = redlock.lock("report:monthly").expire(Duration::from_secs(10)).acquire().await?;
/// assert!(guard.is_held());
/// guard.release().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Redlock {
    pub(crate) shared: Arc<Shared>,
}

impl Redlock {
    /// Makes a lock on `key`, with the defaults of this node set. It sends nothing: [`Lock::acquire`] does.
    ///
    /// An empty key fails with [`LockError::EmptyKey`](crate::LockError::EmptyKey) when the lock is acquired. A key
    /// that contains `__redlock:`, together with the [key prefix](crate::Builder::key_prefix), fails with
    /// [`LockError::Config`](crate::LockError::Config): the library keeps its own data on the nodes under such keys.
    #[doc(alias = "mutex")]
    pub fn lock(&self, key: impl AsRef<str>) -> Lock {
        let key = Keys::One(key.as_ref().into());
        Lock::new(Arc::clone(&self.shared), key, Options::default())
    }

    /// Makes one lock on 1 to 16 keys: all of them are locked, or none. For example, both accounts of a transfer. It
    /// excludes locks on any of its keys.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://lock-all"]).build().await?;
    /// let both = redlock.lock_all(["account:7", "account:9"]);
    /// let guard = both.acquire().await?;
    /// let error = redlock.lock_all(["account:8", "account:9"]).acquire().await.unwrap_err();
    /// assert_eq!(error.key(), Some("account:9"), "the key that is taken");
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - A [`Member`] can be a lock in place of a key, and then be shared or have permits.
    /// - Two calls cannot deadlock, whatever the order of their keys. Duplicates count once; a key in two ways is a mistake.
    /// - If a key is taken, [`Contended`](crate::LockError::Contended) names it. Other errors and
    ///   [`Lease::key`](crate::Lease::key) name all, with `, ` between them.
    /// - The one fencing token is larger than all earlier tokens of any of the keys, and smaller than all later ones.
    /// - The lease ends when the first key is lost. [`max_hold`](Lock::max_hold) counts from when all keys are held.
    /// - Free keys take one round trip, with a request per key and node; a second one if their tokens lie far apart.
    /// - If a key is taken, the call waits for one key after the other, by name, in the queue of each. Meanwhile it
    ///   holds and renews the earlier keys, unused; if the process dies, they stay until they expire. The body begins
    ///   with most of the lease.
    /// - A caller whose first key is less wanted is served more often. If most calls wait, lock something that the keys
    ///   have in common.
    /// - A call returns within [`wait`](Lock::wait) and three node timeouts; ten if nodes fail, or are slow
    ///   and disagree on a token.
    /// - It [excludes some options](Lock#options-that-exclude-each-other), even with one key.
    #[doc(alias = "multilock")]
    pub fn lock_all<I>(&self, keys: I) -> Lock
    where
        I: IntoIterator,
        I::Item: Into<Member>,
    {
        let keys = Member::keys_of(keys.into_iter().map(Into::into), &self.shared);
        Lock::new(Arc::clone(&self.shared), keys, Options::default())
    }

    /// Lists the annotated functions of this program by file and line, also those that are never called.
    /// [`Builder::install`](crate::Builder::install) has checked them against its settings.
    ///
    /// ```
    /// # use redlock_runtime::{LockError, Redlock, redis_lock};
    /// #[redis_lock(key = "order:{id}", expire = 5s, name = "orders.pay")]
    /// async fn pay(id: u64) -> Result<u64, LockError> {
    ///     Ok(id)
    /// }
    ///
    /// let sections = Redlock::sections();
    /// assert!(sections.iter().any(|it| it.name == "orders.pay" && it.key == "order:{id}"));
    /// ```
    ///
    /// Some functions are checked only when they are called; a mistake then fails with
    /// [`LockError::Config`](crate::LockError::Config), which names the function:
    ///
    /// - with `via`: only a call knows the node set
    /// - with a duration or permits from a constant of a type (`expire = Self::LEASE`) or from the arguments: listed
    ///   without that value
    /// - in a crate that the program does not name in its source, although Cargo knows it: not listed
    /// - all, on platforms where [`inventory`](https://docs.rs/inventory) has no constructors: not listed
    ///
    /// Locks that [`lock`](Self::lock) makes are not in the list.
    #[must_use]
    pub fn sections() -> Vec<&'static SectionInfo> {
        SectionInfo::all()
    }

    /// Reports whether a majority of nodes votes, and what is wrong with the others. Use it for readiness checks and
    /// logs: it asks no node, because the engine knows their states. Once the engine has ended, for example by
    /// [`shutdown`](Self::shutdown), no node votes.
    #[must_use]
    pub fn health(&self) -> Health {
        let now = self.shared.engine.now();
        let states = self.shared.engine.node_states();
        let has_ended = self.shared.engine.has_ended();
        let status = |(place, (node, state)): (usize, (&Node, Option<_>))| {
            let down = |why: &str| NodeState::Down { reason: why.into() };
            let state = match state {
                // What the engine knew last says nothing of the calls of now, which all fail.
                _ if has_ended => down("the node set was shut down"),
                // A node set is handed out when each of its nodes has a state.
                state => state.unwrap_or_else(|| down("not connected yet")),
            };
            let mut status = NodeStatus::new(place, state, &self.shared.addresses, now);
            status.limitations = node.target.limitations();
            status
        };
        let nodes = self.shared.nodes.iter().zip(states).enumerate().map(status);
        Health {
            nodes: nodes.collect(),
            under_replicated: self.shared.engine.under_replicated(),
        }
    }

    /// Lists the nodes of [`health`](Self::health) and their states, in the order of configuration.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeStatus> {
        self.health().nodes
    }

    /// Reports the holders and waiters of a lock: the value and the remaining time on every node, and the process that
    /// wrote it. Takes the key as [`lock`](Self::lock) does, without the [key prefix](crate::Builder::key_prefix).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let nodes = ["memory://inspect-a", "memory://inspect-b", "memory://inspect-c"];
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(nodes).service("orders").build().await?;
    /// # let guard = redlock.lock("order:7").acquire().await?;
    /// let found = redlock.inspect("order:7").await;
    /// assert!(found.holders[0].has_majority);
    /// assert_eq!(found.holders[0].process.as_ref().expect("this one").service, "orders");
    /// // "order:7 is held; 3 of 3 nodes replied
    /// //   orders on web-3, process 4711 (this one), on 3 of 3 nodes, for another 5.5s, owner 67e55044-..."
    /// println!("{found}");
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - Each node has the [`connect_timeout`](crate::Builder::connect_timeout) to reply, over a connection of its own.
    ///   [`InspectedNode::problem`](crate::InspectedNode::problem) says why a node did not. No key is changed.
    /// - A key's value names its process by a random number. The names of that process's connections have it, too, next
    ///   to its [`service`](crate::Builder::service). Acquisitions cost no more for this. The nodes' user needs the
    ///   [rights](crate::guide::servers#rights) `+client|setname` and, for this call, `+client|list`.
    /// - Waiters of other node sets on `memory://` nodes are not known.
    ///
    /// # Cancellation
    /// Dropping the future has no effect. It needs no async runtime.
    pub async fn inspect(&self, key: &str) -> Inspection {
        let shared = &self.shared;
        let key: Arc<str> = format!("{}{key}", shared.settings.key_prefix).into();
        let seen = shared.engine.look(Arc::clone(&key)).await;
        let now = shared.engine.now();
        let limit = shared.settings.connect_timeout;
        let snapshots = inspect::ask(&shared.nodes, &key, now, limit).await;
        let this = Some(shared.engine.client.clone());
        Inspection::new(key, snapshots, this, seen, now)
    }

    /// Deletes the lock with this key on all nodes, whoever holds it, and returns on how many nodes it did. It is for
    /// operators, like the command `redlock break`: against a holder that hangs, or another library's key that never
    /// expires.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://break"]).build().await?;
    /// let stuck = redlock.lock("order:7").acquire().await?;
    /// assert_eq!(redlock.break_lock("order:7").await?, 1);
    /// assert!(!redlock.inspect("order:7").await.is_held());
    /// # drop(stuck);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - **It breaks the exclusion.** The holder is not asked. It learns of the loss by a notice of the nodes, a round
    ///   trip later, or at its next renewal, and then its body is dropped with [`LockError::Lost`]. Until then it and
    ///   the next holder work at the same time, and only a store that checks the [fencing token](crate::fence) tells
    ///   them apart.
    /// - It deletes what stands under the key when it is called. A client that gets the lock meanwhile keeps it.
    /// - Of a shared lock, all readers lose it. A permit has a key of its own, such as `exports#__redlock:0`; see
    ///   [`inspect`](Self::inspect). Zero nodes means that the lock was free.
    /// - Each node has the [`connect_timeout`](crate::Builder::connect_timeout) to reply, over a connection of its own.
    ///
    /// # Errors
    /// [`LockError::NoQuorum`] if no majority of nodes replied: nothing was deleted, and the error lists the nodes that
    /// failed. [`LockError::EmptyKey`], and [`LockError::Config`] for the library's own keys.
    ///
    /// # Cancellation
    /// A future that is dropped may have deleted the lock on some nodes or on all. It needs no async runtime.
    pub async fn break_lock(&self, key: impl AsRef<str>) -> Result<usize, LockError> {
        let (shared, key) = (&self.shared, key.as_ref());
        if key.is_empty() {
            return Err(LockError::EmptyKey { placeholder: None });
        }
        let begun = shared.engine.now();
        let breaking = Breaking {
            nodes: &shared.nodes,
            key: format!("{}{key}", shared.settings.key_prefix).into(),
            limit: shared.settings.connect_timeout,
            now: begun,
        };
        breaking.check()?;
        match breaking.marks().await {
            Ok(marks) if marks.is_empty() => Ok(0),
            Ok(marks) => Ok(breaking.delete(&marks).await),
            Err(failed) => {
                let elapsed = shared.engine.now().since(begun);
                let (addresses, reasons): (Vec<_>, Vec<Why>) = failed.into_iter().unzip();
                let verdict = |why: Why| Verdict::Unreachable { reason: why.text };
                let verdicts = reasons.into_iter().map(verdict).collect();
                let report = Report::new(None, breaking.key, elapsed);
                Err(LockError::NoQuorum(report.said(&addresses, verdicts)))
            }
        }
    }

    /// Returns the lease on `key` that the calling code runs under, if that lock is held. A function that must be called
    /// under a lock can check that it is:
    ///
    /// ```
    /// # use redlock_runtime::Redlock;
    /// fn ship(order: u64) {
    ///     let redlock = Redlock::installed();
    ///     let lease = redlock.and_then(|redlock| redlock.current_lease(format!("order:{order}")));
    ///     assert!(lease.is_some(), "`ship` needs the lock of the order");
    /// }
    /// ```
    ///
    /// The code runs under the leases of the bodies around it in this task: of annotated functions, of
    /// [`Lock::hold`], [`Lock::hold_blocking`] and [`Lease::scope`]. A [`Guard`](crate::Guard) alone has no body, so its
    /// lease is found in its `scope` only. A reader's lease counts, a permit's does not.
    #[must_use]
    #[doc(alias = "holds")]
    pub fn current_lease(&self, key: impl AsRef<str>) -> Option<Lease> {
        let mut keys = Keys::One(key.as_ref().into());
        keys.put_before(&self.shared.settings.key_prefix);
        let asked = Ok(nesting::find(&self.shared, &keys)?);
        Some(Lease { asked }).filter(Lease::is_held)
    }

    /// Waits until a majority of nodes votes. [`Builder::install`](crate::Builder::install) does this already, unless
    /// [`require_quorum`](crate::Builder::require_quorum) is false.
    ///
    /// # Errors
    /// [`NotReady`] if that takes longer than `timeout`.
    ///
    /// # Cancellation
    /// Dropping the future has no effect on the node set. It needs no async runtime.
    pub async fn ready(&self, timeout: Duration) -> Result<(), NotReady> {
        let engine = &self.shared.engine;
        let quorum = pin!(engine.when(|| self.health().has_quorum()));
        match select(quorum, engine.sleep(timeout)).await {
            Either::Left((Ok(()), _)) => Ok(()),
            _ => Err(NotReady {
                health: self.health(),
            }),
        }
    }

    /// Returns true if the nodes are `memory://` nodes: locks then exclude other tasks of this process, and no other
    /// process. A program that falls back to such nodes by
    /// [`Builder::nodes_from_env_or`](crate::Builder::nodes_from_env_or) should log it.
    #[must_use]
    pub fn is_embedded(&self) -> bool {
        self.shared.is_embedded
    }

    /// Shuts the node set down in order: new and waiting calls fail with
    /// [`LockError::Stopped`](crate::LockError::Stopped), holders may finish, and every lock is released. Returns when
    /// that is done, or after `timeout`.
    ///
    /// - After `timeout`, async bodies that still run are cut off with
    ///   [`LockError::Stopped`](crate::LockError::Stopped), and have another second to release their locks. A lock that
    ///   is not released by then, such as that of a [`Guard`](crate::Guard) that is not dropped, stays until its keys
    ///   expire.
    /// - Blocking code cannot be cut off: code under a guard, in [`hold_blocking`](crate::Lock::hold_blocking), or in
    ///   an annotated plain `fn`. It runs on, and another client gets the lock when the keys have expired. Such code
    ///   must end within `timeout`, or check [`Lease::is_held`](crate::Lease::is_held).
    ///
    /// # Errors
    /// [`ShutdownError`] counts the locks and releases that were left after `timeout`.
    ///
    /// # Cancellation
    /// The shutdown continues when this future is dropped.
    pub async fn shutdown(&self, timeout: Duration) -> Result<(), ShutdownError> {
        let (done, drained) = oneshot::channel();
        let report = |left| {
            let _ = done.send(left);
        };
        if self.shared.engine.shutdown(timeout, false, report).is_err() {
            return Ok(());
        }
        match drained.await {
            Ok(left) if left != ShutdownError::default() => Err(left),
            _ => Ok(()),
        }
    }
}
