//! The handle on a node set: what locks are made of, and how it is shut down.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};
pub use redlock_protocol::ShutdownError;
use tokio::sync::oneshot;

use crate::{
    config::{Node, Options, SectionInfo},
    health::{Health, NodeState, NodeStatus, NotReady},
    inspect::{self, Inspection},
    keys::Keys,
    lock::Lock,
    node_set::Shared,
};

/// A set of independent Redis nodes, and the engine that speaks to them.
///
/// A handle is cheap to clone; all clones share one engine. When the last one and the last lock
/// made of it are gone, the engine releases what is left to release and ends.
///
/// Most applications have one node set, made by [`Builder::install`](crate::Builder::install) and used by annotated
/// functions without being named. Others are made by [`Builder::build`](crate::Builder::build) and named by
/// `via = ...`, or used directly:
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
    /// A lock on `key`, with the defaults of this node set. Nothing is sent before
    /// [`Lock::acquire`].
    ///
    /// The key must not be empty, and with the [key prefix](crate::Builder::key_prefix) before it, it must
    /// not contain `__redlock:`: the library keeps its own data on the nodes under such keys.
    /// Acquiring such a lock fails with [`LockError::EmptyKey`](crate::LockError::EmptyKey) or
    /// [`LockError::Config`](crate::LockError::Config).
    #[doc(alias = "mutex")]
    pub fn lock(&self, key: impl AsRef<str>) -> Lock {
        let key = Keys::One(key.as_ref().into());
        Lock::new(Arc::clone(&self.shared), key, Options::default())
    }

    /// One lock on several keys, all or none, for what must not be done to any of them by others
    /// meanwhile: a transfer between two accounts. It is acquired as a lock on one key is, and excludes
    /// locks on any of its keys.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://lock-all"]).build().await?;
    /// use redlock_runtime::LockError;
    ///
    /// let both = redlock.lock_all(["account:7", "account:9"]);
    /// let guard = both.acquire().await?;
    /// let error = redlock.lock_all(["account:8", "account:9"]).acquire().await.unwrap_err();
    /// assert!(matches!(error, LockError::Contended(_)));
    /// assert_eq!(error.key(), Some("account:9"), "the one that is taken");
    /// guard.release().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - The order of the keys makes no difference, and no order can make two callers wait for each
    ///   other: all of them wait for keys in the order of their names. A name that is given twice counts once.
    /// - An error of the acquisition names the key that could not be had; any other error, and
    ///   [`Lease::key`](crate::Lease::key), all of them with `, ` between them.
    /// - There is one fencing token. It is larger than all that were given for any of the keys before,
    ///   and all later ones of each key are larger.
    /// - The lease ends with the first of the keys: if one is lost, the lock is. [`max_hold`](Lock::max_hold) counts
    ///   from when all of them are held.
    ///
    /// Keys that are free take one round trip as one key does, with one request for each key and node; a
    /// second one if the nodes have given them tokens that lie far apart. If a key is taken, those behind it are
    /// released. From there the caller waits for one key after the other, in its place in the queue of each, and
    /// renews those that it has, also without [`renew`](Lock::renew); that ends once it has all. So a key may be
    /// held and idle while its caller waits for another one, and if the process dies then, it stays as any
    /// lock of a process that dies. The body begins with most of the lease.
    ///
    /// Callers with some keys in common wait for each other, and one whose first key in that order is wanted
    /// by fewer others is served more often. If most calls have to wait, lock something that the keys have in
    /// common. A call returns within its [`wait`](Lock::wait) and three node timeouts, or up to ten if the nodes
    /// are slow and do not agree on a token.
    ///
    /// One to 16 keys, and not with [`at_least`](Lock::at_least), [`shared`](Lock::shared),
    /// [`permits`](Lock::permits) or [`fair`](Lock::fair), even if there is only one key. Acquiring fails with
    /// [`LockError::Config`](crate::LockError::Config) otherwise.
    #[doc(alias = "multilock")]
    pub fn lock_all<I>(&self, keys: I) -> Lock
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let keys = Keys::all(keys.into_iter().map(|key| key.as_ref().into()));
        Lock::new(Arc::clone(&self.shared), keys, Options::default())
    }

    /// The annotated functions of this program, in the order of file and line, whether or not they
    /// are ever called. [`Builder::install`](crate::Builder::install) has checked that each can work
    /// with its settings.
    ///
    /// ```
    /// use redlock_runtime::{LockError, Redlock, redis_lock};
    ///
    /// #[redis_lock(key = "order:{id}", expire = 5s, name = "orders.pay")]
    /// async fn pay(id: u64) -> Result<u64, LockError> {
    ///     Ok(id)
    /// }
    ///
    /// let sections = Redlock::sections();
    /// let pay = sections.iter().find(|section| section.name() == "orders.pay").unwrap();
    /// assert_eq!(pay.key(), "order:{id}");
    /// ```
    ///
    /// Some are not checked before their first call, which then fails with a
    /// [`LockError::Config`](crate::LockError::Config) that names the function:
    ///
    /// - functions with `via`, which are in the list, because only a call knows their node set
    /// - functions with a duration or a number of permits that is a constant of a type, such as
    ///   `expire = Self::LEASE`, or comes from the arguments; they are in the list without that value
    /// - functions of a crate that is not part of the program: Cargo may know it as a dependency,
    ///   but nothing names it in the source
    /// - all functions on platforms on which [`inventory`](https://docs.rs/inventory), which makes
    ///   the list, has no constructors
    ///
    /// Locks that are made at run time, by [`lock`](Self::lock), are not in the list.
    #[must_use]
    pub fn sections() -> Vec<&'static SectionInfo> {
        SectionInfo::all()
    }

    /// Whether a majority of nodes votes at present, and what is wrong with those that do not. For
    /// readiness checks and logs. It costs nothing: the engine knows all nodes' states. Once it has ended,
    /// by [`shutdown`](Self::shutdown) for example, no node votes.
    #[must_use]
    pub fn health(&self) -> Health {
        let now = self.shared.engine.now();
        let states = self.shared.engine.node_states();
        let has_ended = self.shared.engine.has_ended();
        let status = |(node, state): (&Node, Option<_>)| {
            let down = |why: &str| NodeState::Down { why: why.into() };
            let state = match state {
                // What the engine knew last says nothing of the calls of now, which all fail.
                _ if has_ended => down("the node set was shut down"),
                Some(state) => NodeState::new(state, &self.shared.addresses, now),
                // A node set is handed out when each of its nodes has a state.
                None => down("not connected yet"),
            };
            let limitations = node.target.limitations();
            NodeStatus::new(Arc::clone(&node.address), state, limitations)
        };
        let nodes = self.shared.nodes.iter().zip(states).map(status);
        Health::new(nodes.collect(), self.shared.engine.under_replicated())
    }

    /// The nodes and their states, in the order of configuration: those of
    /// [`health`](Self::health).
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeStatus> {
        self.health().nodes
    }

    /// Who holds the lock with this key and who waits for it, for operators: what each node has under
    /// it, for how much longer, and whose it is. The key is given as to [`lock`](Self::lock), without the
    /// [key prefix](crate::Builder::key_prefix).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use redlock_runtime::Redlock;
    /// let redlock = Redlock::builder()
    ///     .nodes(["memory://inspect-a", "memory://inspect-b", "memory://inspect-c"])
    ///     .service("orders")
    ///     .build()
    ///     .await?;
    /// let guard = redlock.lock("order:7").acquire().await?;
    ///
    /// let found = redlock.inspect("order:7").await;
    /// let holder = &found.holders()[0];
    /// assert!(holder.has_majority());
    /// let process = holder.process().expect("it is this one");
    /// assert_eq!((process.service(), process.pid()), ("orders", std::process::id()));
    /// // "order:7 is held; 3 of 3 nodes replied
    /// //   orders on web-3, process 4711 (this one), on 3 of 3 nodes, for another 5.5s, owner 67e55044-..."
    /// println!("{found}");
    /// # guard.release().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The value of a key names its process by a random number. The process is found by the connections
    /// that have this number in their names, which
    /// [`service`](crate::Builder::service) is a part of: so an acquisition costs nothing for this, and the
    /// nodes' user needs the [rights](crate::guide::servers#rights) `+client|setname`, and for this call
    /// `+client|list`. Nothing else depends on them.
    ///
    /// The nodes are asked over connections of their own, and no key is changed. Each has the
    /// [`connect_timeout`](crate::Builder::connect_timeout) to reply. There is no error:
    /// [`InspectedNode::problem`](crate::InspectedNode::problem) says why nothing is known of a node. Of
    /// `memory://` nodes, waiters of other node sets are not known.
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
        let this = Some(shared.engine.client().clone());
        Inspection::new(key, snapshots, this, seen, now)
    }

    /// Returns once a majority of nodes votes.
    /// [`Builder::install`](crate::Builder::install) has waited for that already.
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
            _ => Err(NotReady::new(self.health())),
        }
    }

    /// True if the nodes are `memory://` nodes: then locks exclude other tasks of this process, and
    /// no other process. For a line in the log of a program that falls back to such nodes by
    /// [`Builder::nodes_from_env_or`](crate::Builder::nodes_from_env_or).
    #[must_use]
    pub fn is_embedded(&self) -> bool {
        self.shared.is_embedded
    }

    /// Shuts the node set down in order: nothing new is locked, waiting callers get
    /// [`LockError::Stopped`](crate::LockError::Stopped), holders may finish, and everything is
    /// released. Returns once that is done, or after `timeout`: async bodies that still run are then cut off
    /// with [`LockError::Stopped`](crate::LockError::Stopped), and have another second to let go. The lock of
    /// one that does not, and of a [`Guard`](crate::Guard) that is not dropped, stays until its keys expire.
    ///
    /// Code under a guard, in [`hold_blocking`](crate::Lock::hold_blocking) or in an annotated function that is
    /// not async cannot be cut off. It runs on, and once its keys have expired another client can get the lock:
    /// such code must end within `timeout`, or look at [`Lease::is_held`](crate::Lease::is_held).
    ///
    /// # Errors
    /// [`ShutdownError`] counts what was left when the time was up.
    ///
    /// # Cancellation
    /// The shutdown goes on when this future is dropped.
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
