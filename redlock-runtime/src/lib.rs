//! One attribute on an `async fn` makes it a critical section across every process of a fleet.
//!
//! ```
//! use redlock_runtime::{LockError, Redlock, redis_lock};
//!
//! #[redis_lock(key = "stock:{sku}", expire = 5, wait = 500ms)]
//! async fn reserve(sku: u64, quantity: u32) -> Result<u32, LockError> {
//!     // Only one at a time for each `sku`, in this process and in all others.
//!     Ok(quantity)
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // In production: `redis://...` three or five times, or the variable REDLOCK_NODES.
//!     let _redlock = Redlock::builder()
//!         .nodes(["memory://a", "memory://b", "memory://c"])
//!         .install()
//!         .await?;
//!     assert_eq!(reserve(7, 2).await?, 2);
//!     Ok(())
//! }
//! ```
//!
//! The call acquires a Redlock over all nodes, runs the body, and releases on every path: return,
//! `?`, panic, cancellation. [`redis_lock`] lists the arguments. Without the attribute, the same
//! is [`Redlock::lock`] with [`Lock::hold`] around a future, or [`Lock::acquire`] for a
//! [`Guard`].
//!
//! # What is guaranteed
//!
//! 1. **The body never starts without the lock, and is not polled after its lease has ended.**
//!    The lease counts from before the first request was sent. At its deadline, or as soon as
//!    the lock is known to be lost, the body is dropped where it stands and the call returns
//!    [`LockError::Expired`] or [`LockError::Lost`]. The deadline is the caller's own: it waits
//!    for no renewal and no node.
//! 2. **Leases of two holders never overlap**, as long as clocks run within half a percent of
//!    each other and step by less than the [guard band](Builder::guard_band), and nobody else
//!    deletes the keys. A node that may have lost its memory does not vote: see
//!    [below](#restarts).
//! 3. **Everything that was sent is released, on all nodes** that have not refused it, also on those
//!    that failed or timed out, whatever ended the attempt. The release is the engine's work: it needs
//!    neither the caller's future nor its runtime, and it cannot be cancelled.
//! 4. **A release deletes only its own key**, no renewal follows it, and it never replaces the
//!    body's result.
//! 5. **Extending a lease never re-creates a lock** that a majority of nodes has lost. On a minority
//!    that has lost its key, the key of a lock that is still held is put back.
//! 6. **A failed node costs no acquisition**, and at the most some milliseconds until it is known:
//!    the verdict falls when a majority has granted, or as soon as none can. A majority is one of all configured nodes.
//! 7. **Waiting is bounded**: a call returns within `wait` and one node timeout, and what an
//!    interrupted one leaves behind lives no longer than the key does. If several processes ask for
//!    a free lock at the same instant without waiting, and the nodes answer in time, one of them
//!    gets it.
//! 8. **[Fencing tokens](Lease::fencing_token) are unique**, whatever the clocks do, while a majority
//!    of nodes keeps its memory, and they grow with every acquisition of a key while leases do not
//!    overlap. A store that refuses smaller ones is safe even from a holder that was paused: see
//!    [`fence`].
//! 9. **A loss is known early**: a holder watches its key, and learns within a round trip or two that
//!    it was deleted or flushed, or that another client has the lock.
//!
//! [`guarantees`] has the assumptions behind these, what checks each, and the tests.
//!
//! # What is not guaranteed
//!
//! - A holder that is *paused in the middle of a poll*, by the operating system or by blocking
//!   code, can act after its lease has ended. No lock service can prevent that; a store that
//!   checks fencing tokens can.
//! - Nor is anything safe from clocks that step further than the guard band, or from keys that
//!   others delete. Both are found out, but afterwards.
//! - After a crash, `SIGKILL` or power loss nothing is released; the keys expire.
//! - A task that asks for a lock which it holds cannot get it. Within a body that is
//!   [`LockError::Nested`] at once, or the section [joins](Lock::reentrant) the one around it. A task
//!   that holds a bare [`Guard`] waits for itself, unless it works in [`Lease::scope`].
//! - Tasks of one process are served in order of asking; processes are not. A process in which tasks
//!   always wait for a lock leaves it to another process that waits after some 25 ms, but there is no
//!   order among processes. Clients of other libraries cannot make themselves heard: see
//!   [`mixed_fleet`](Builder::mixed_fleet).
//!
//! # Restarts
//!
//! A node that was restarted without its keys, flushed, or replaced by a replica is detected and
//! *quarantined*: it does not vote until all locks that it may have forgotten have expired. The other
//! nodes know how long that can be, because each keeps the longest key TTL that it has granted
//! lately: with leases of 5 s a restarted node votes again after about 6 s. If too few other nodes
//! can be read, it is the key TTL of [`max_lease`](Builder::max_lease). One quarantined node of three
//! or five delays no lock. If too few other nodes are left, locks fail with
//! [`LockError::Quarantined`], or wait. Locks that are held survive restarts of one node after the
//! other: their keys are put back as soon as a node votes again.
//!
//! Servers that are all new vote after the key TTL of the default lease;
//! [`assume_fresh`](Builder::assume_fresh) skips that wait in tests and development. A master with
//! `appendonly yes` and `appendfsync always` that has never been a replica forgets nothing, and votes
//! at once after a restart.
//!
//! Not detected: a virtual machine that is set back to an earlier state while no client is connected;
//! a restart with old data of a server that does not allow `INFO`.
//!
//! # Cancellation
//!
//! Every future of this crate is *cancel-safe*: it can be dropped at any await point, and
//! nothing is left behind. Whatever was sent for it is released by the engine. Dropping a
//! [`Guard`], or the future of an annotated function, is one message to the engine: it never
//! blocks and never panics, in or outside a runtime, while unwinding, and after a `fork`.
//!
//! A body that is cut off, by its caller or by the end of its lease, is dropped before the lock
//! is released: its own values are destroyed while the lock is still held.
//!
//! # Panics
//!
//! Nothing in this crate panics on bad input, bad nodes or bad timing. A panic of the body
//! passes through, and the lock is released on its way. If the engine itself should die, locks
//! that are held count as lost ([`LockError::Stopped`]) and new ones fail with the same error.
//!
//! # Units
//!
//! All durations are [`std::time::Duration`]. Nodes count in whole milliseconds: a key's time to
//! live is the lease, plus 1 % and 2 ms for the drift of clocks, plus the guard band, rounded
//! up. Clocks include the time that a machine is suspended (on Linux `CLOCK_BOOTTIME`).
//!
//! # Nodes
//!
//! Three or five Redis servers (tested with Redis 7.0) that fail independently of each other; no
//! replicas, no cluster. A server that drops keys when memory runs out gets
//! [no vote](Builder::allow_eviction). On the wire a lock is what every Redlock client writes,
//! `SET key owner NX PX ttl` and a compare-and-delete, so other libraries on the same key exclude
//! this one and are excluded. Beside the locks a node holds the hash `__redlock:node:0`, named for the
//! number of its database: its admission to the vote, the counters of the tokens, and which processes
//! wait.
//!
//! Keys that begin with `__redlock:` are reserved for the library's own data. A lock on such a key
//! fails with [`LockError::Config`].
//!
//! `memory://` nodes live in one process, so locks on them exclude nothing outside it. They cannot
//! stand beside servers. If a program falls back to them by
//! [`nodes_from_env_or`](Builder::nodes_from_env_or), [`Redlock::is_embedded`] reports it, and
//! [`require_servers`](Builder::require_servers) makes it an error.
//!
//! A server's user needs these rules, here with the [key prefix](Builder::key_prefix) `lock:`:
//!
//! ```text
//! ~lock:* ~__redlock:* +hello +auth +eval +evalsha +script|load +info +config|get
//! +client|tracking +client|caching +set +get +del +pttl +pexpire
//! +hget +hset +hmget +hgetall +hdel +time
//! ```
//!
//! It works without `INFO` (then a restart with old data, two URLs of one server, and eviction are
//! not found out), `SCRIPT LOAD`, `CONFIG GET` (then `appendfsync always` is not known) and
//! `CLIENT TRACKING` (then a loss is known at the next renewal).
//!
//! # Features
//!
//! - `tracing`, on by default: warnings and one line of information about the start of a node set.
//! - `tls`: `rediss://` nodes, by rustls with the operating system's root certificates, and by
//!   ring where the application has not installed another provider of cryptography.

mod announce;
mod builder;
mod config;
mod engine;
mod error;
pub mod fence;
mod guard;
mod health;
mod install;
mod key;
mod lease;
mod lock;
mod nesting;
mod node;
mod node_set;
mod redlock;
mod script;
mod section;

#[doc = include_str!("guarantees.md")]
pub mod guarantees {}

#[doc(hidden)]
#[path = "macro_support.rs"]
#[allow(missing_docs, reason = "for expansions alone")]
pub mod __private;

// The public interface
pub use redlock_macros::redis_lock;

pub use self::{
    builder::Builder,
    config::{ConfigError, ConfigProblem, NODES_VARIABLE},
    error::{FromLockError, LockError, NodeVerdict, QuarantineReason, Report, Verdict},
    guard::Guard,
    health::{Health, NodeState, NodeStatus, NotReady},
    install::Installed,
    lease::{FencingToken, Lease, Release},
    lock::Lock,
    redlock::{Redlock, ShutdownError},
};

/// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
