//! The handle on a node set: what locks are made of, and how it is shut down.

use std::{error, fmt, sync::Arc, time::Duration};

use tokio::sync::oneshot;

use crate::{
    builder::Builder,
    config::{Options, Settings},
    engine::Engine,
    install,
    lock::Lock,
    protocol::{Drained, NodeState},
};

/// A set of independent Redis nodes, and the engine that speaks to them.
///
/// A handle is cheap to clone; all clones share one engine. When the last one and the last lock
/// made of it are gone, the engine releases what is left to release and ends.
///
/// Most applications have one node set, made by [`Builder::install`] and used by annotated
/// functions without being named. Others are made by [`Builder::build`] and named by
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

/// What all clones of a handle, and all its locks, share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) settings: Settings,
    /// The nodes' addresses, in order, without user and password.
    pub(crate) addresses: Vec<Arc<str>>,
    /// All nodes are in memory.
    pub(crate) is_embedded: bool,
}

impl Redlock {
    /// Starts to describe a node set.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// The node set that [`Builder::install`] made the global one, if there is one.
    #[must_use]
    pub fn installed() -> Option<Self> {
        install::installed()
    }

    /// A lock on `key`, with the defaults of this node set. Nothing is sent before
    /// [`Lock::acquire`].
    ///
    /// The key must not be empty, and with the [key prefix](Builder::key_prefix) before it, it must
    /// not begin with `__redlock:`: the library keeps its own data on the nodes under such keys.
    /// Acquiring such a lock fails with [`LockError::EmptyKey`](crate::LockError::EmptyKey) or
    /// [`LockError::Config`](crate::LockError::Config).
    pub fn lock(&self, key: impl Into<Arc<str>>) -> Lock {
        Lock::new(Arc::clone(&self.shared), key.into(), Options::default())
    }

    /// The nodes and the state of their connections, in the order of configuration. For health
    /// checks and logs; the lock itself does not need to be told.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeStatus> {
        let states = self.shared.engine.node_states();
        let nodes = self.shared.addresses.iter().zip(states);
        nodes
            .map(|(address, state)| NodeStatus {
                address: Arc::clone(address),
                connection: self.connection(state),
            })
            .collect()
    }

    /// True if the nodes are `memory://` nodes: then locks exclude other tasks of this process, and
    /// no other process. For a line in the log of a program that falls back to such nodes by
    /// [`Builder::nodes_from_env_or`].
    #[must_use]
    pub fn is_embedded(&self) -> bool {
        self.shared.is_embedded
    }

    /// Shuts the node set down in order: nothing new is locked, waiting callers get
    /// [`LockError::Stopped`](crate::LockError::Stopped), holders may finish, and everything is
    /// released. Returns once that is done, or after `timeout`: then holders that are left are
    /// told that their lock is lost, and their keys expire by themselves.
    ///
    /// # Errors
    /// [`ShutdownError`] tells what was left when the time was up.
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
            Ok(left) if left != Drained::default() => Err(ShutdownError {
                held: left.held,
                unconfirmed: left.unconfirmed,
            }),
            _ => Ok(()),
        }
    }

    fn connection(&self, state: Option<NodeState>) -> Connection {
        match state {
            None => Connection::Connecting,
            Some(NodeState::Up) => Connection::Up,
            Some(NodeState::Down(reason)) => Connection::Down { reason },
            Some(NodeState::Quarantined(until)) => Connection::Quarantined {
                remaining: until.since(self.shared.engine.now()),
            },
            Some(NodeState::ClockAhead { by, until }) => Connection::ClockAhead {
                by,
                remaining: until.since(self.shared.engine.now()),
            },
            Some(NodeState::Evicts(policy)) => Connection::Evicts { policy },
            Some(NodeState::SameServer(twin)) => Connection::SameServer {
                address: Arc::clone(&self.shared.addresses[twin.0]),
            },
        }
    }
}

/// A node, and whether it can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    address: Arc<str>,
    connection: Connection,
}

impl NodeStatus {
    /// The node's address, without user and password.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its connection.
    #[must_use]
    pub const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// True if the node can vote.
    #[must_use]
    pub const fn is_up(&self) -> bool {
        matches!(self.connection, Connection::Up)
    }
}

/// The state of the connection to a node.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connection {
    /// The first attempt is under way.
    Connecting,
    /// Connected: the node votes.
    Up,
    /// Not connected. It is tried again in the background, at least once a second or so.
    Down {
        /// Why the last attempt failed, or how the last connection broke.
        reason: Arc<str>,
    },
    /// It may have lost its memory, and does not vote until what it may have forgotten has run
    /// out; see [`Builder::assume_fresh`](crate::Builder::assume_fresh).
    Quarantined {
        /// How long that takes.
        remaining: Duration,
    },
    /// Its clock has run ahead by more than the guard band allows, so that it may have dropped
    /// locks early. It does not vote until all of them have run out.
    ClockAhead {
        /// By how much, between two renewals of one lock.
        by: Duration,
        /// How long it does not vote.
        remaining: Duration,
    },
    /// It drops keys when memory runs out, so it does not vote; see
    /// [`Builder::allow_eviction`](crate::Builder::allow_eviction).
    Evicts {
        /// Its `maxmemory-policy`.
        policy: Arc<str>,
    },
    /// It turned out to be the same server as another node, so it must not vote.
    SameServer {
        /// The other node.
        address: Arc<str>,
    },
}

/// What was left when a shutdown ran out of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShutdownError {
    held: usize,
    unconfirmed: usize,
}

impl ShutdownError {
    /// Locks whose holder had not let go.
    #[must_use]
    pub const fn held(&self) -> usize {
        self.held
    }

    /// Releases that a connected node had not confirmed.
    #[must_use]
    pub const fn unconfirmed(&self) -> usize {
        self.unconfirmed
    }
}

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "shut down with {} locks held and {} releases unconfirmed; their keys expire by themselves",
            self.held, self.unconfirmed
        )
    }
}

impl error::Error for ShutdownError {}
