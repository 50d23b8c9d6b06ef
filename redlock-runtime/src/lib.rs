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
//! The call acquires a Redlock over all nodes, runs the body, and releases the lock on every path: return,
//! `?`, panic, cancellation. Start here:
//!
//! - [`redis_lock`] lists the arguments of the attribute.
//! - [`Redlock::lock`] makes a lock without the attribute: [`Lock::hold`] runs a body under it,
//!   [`Lock::acquire`] returns a [`Guard`].
//! - [`LockError`] lists what can fail, and what to do about it.
//! - [`guide`] has pages on choosing options, running the servers, and moving from other libraries.
//!
//! # Guarantees
//!
//! - The body never starts without the lock, and is not polled after its lease has ended. A [`Guard`] has no body and
//!   stops no code: your code must check [`is_held`](Lease::is_held).
//! - Leases of two holders never overlap, if clocks run about equally fast and make no large steps, and no other
//!   program deletes keys.
//! - However an attempt ends, its key is released on every node that might hold it, while the process lives.
//! - Fencing tokens are unique while a majority of nodes keeps its memory, clocks are not set back by an hour,
//!   and nobody tampers with the counters.
//!
//! [`guarantees`] has all nine promises, their assumptions, the limits of every lock, and the tests.
//!
//! # Restarts
//!
//! A node may come back from a restart without its keys, be flushed, or be replaced by its replica. The library
//! detects this and *quarantines* the node: it does not vote until every lock that it may have forgotten has
//! expired.
//!
//! - With leases of 5 s, a restarted node votes again after about 6 s. Each node records the longest [key TTL](#units)
//!   that it has granted recently, so the records of the other nodes show how long the restarted node must wait. If too
//!   few of them can be read, the node votes again after the key TTL of [`max_lease`](Builder::max_lease).
//! - One quarantined node of three or five delays no lock. Without a majority of other nodes, calls fail with
//!   [`LockError::Quarantined`], or wait.
//! - Held locks survive restarts of one node after the other: their keys are written to a node again as
//!   soon as it votes.
//! - If all servers are new, they vote after the key TTL of the default lease, or of 5 s if that is longer. A single
//!   new server waits for the key TTL of `max_lease`, and so do several if one of them is out of reach.
//!   [`assume_fresh`](Builder::assume_fresh) skips these waits in tests and development.
//! - A server votes at once if it has run without a flush for twice the time that it would have to wait.
//! - A server that [writes every lock to disk](guide::operating#configuration-of-a-server) votes at once after
//!   a restart.
//!
//! Some losses cannot be detected: see [the list](guide::operating#what-nothing-detects).
//!
//! # Cancellation
//!
//! Every future of this crate is *cancel-safe*: you can drop it at any await point, and nothing is left behind. The
//! library's engine releases everything that was sent for it. Dropping a [`Guard`], or the future of an annotated
//! function, sends the release or leaves it to the engine. Such a drop never blocks and never panics: in or outside a
//! runtime, while unwinding, and after a `fork`.
//!
//! A body that is cut off, by its caller or by the end of its lease, is dropped before the lock is released:
//! its values are destroyed while the lock is still held.
//!
//! # Panics
//!
//! Bad input, bad nodes and bad timing cause no panic. A panic of the body passes through, and the lock is
//! released on its way. If the engine itself dies, bodies that hold a lock are cut off with
//! [`LockError::Stopped`], and new calls fail with the same error.
//!
//! # Units
//!
//! All durations are [`std::time::Duration`]; nodes count in whole milliseconds. The *key TTL*, the time that a
//! node keeps the key of a lock, is the sum of these, rounded up:
//!
//! - the lease
//! - the drift of clocks: 1 % of the lease, and 2 ms
//! - the [guard band](Builder::guard_band)
//! - while other callers of the process wait, up to a twentieth of the lease: sections that follow each other then
//!   write the key seldom
//!
//! Processes also count the time that a machine is suspended, if its [clock](guide::operating#clocks) does (on Linux
//! `CLOCK_BOOTTIME`).
//!
//! # Nodes
//!
//! Use three or five Redis servers that fail independently of each other. [`guide::servers`] lists their
//! requirements, and the rights of their users. On the wire a lock is what every Redlock client writes,
//! `SET key owner NX PX ttl` and a compare-and-delete. So other libraries on the same key
//! [exclude this one and are excluded](guide::migrating#two-libraries-in-one-fleet).
//!
//! `memory://` nodes live in one process: locks on them exclude nothing outside it. One node set cannot mix
//! them with servers. If a program falls back to them by [`nodes_from_env_or`](Builder::nodes_from_env_or),
//! [`Redlock::is_embedded`] returns true, and [`require_servers`](Builder::require_servers) makes it an error.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `metrics` | [metrics](guide::monitoring#metrics), by the crate `metrics` |
//! | `serde` | `RedlockConfig`: a node set from a configuration file or the environment |
//! | `axum` | [`LockError`] as a response: 409 with `Retry-After` if the lock is held, 503 in an outage |
//! | `tower` | `LockLayer` locks the key that your function derives from a request |
//! | `tls` | `rediss://` nodes and [`Tls`], by rustls. Root certificates: the operating system's or your own. Cryptography: ring, unless the application installs another provider |
//! | `test-util` | `Redlock::test()` and the module `testing`, for dev-dependencies; see [`guide::testing`] |
//!
//! Without any feature, the library writes `tracing` [events](guide::monitoring#events) of nodes and locks, and
//! [spans](guide::monitoring#spans) of acquisitions and held sections.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod asked;
mod blocking;
mod builder;
mod clock;
mod config;
#[cfg(feature = "test-util")]
mod current;
mod election;
mod engine;
mod error;
pub mod fence;
mod guard;
mod health;
mod http_answer;
mod inspect;
mod install;
mod key;
mod keys;
mod leader;
mod lease;
mod limitation;
mod lock;
mod nesting;
mod node;
mod node_set;
mod observe;
mod redlock;
#[cfg(feature = "serde")]
mod redlock_config;
mod script;
mod section;
mod status;
#[cfg(feature = "test-util")]
pub mod testing;

#[doc(hidden)]
#[path = "tool.rs"]
#[allow(missing_docs, reason = "for the program `redlock` alone")]
pub mod __tool;

#[doc = include_str!("guarantees.md")]
pub mod guarantees {}

pub mod guide;

#[doc(hidden)]
#[path = "macro_support.rs"]
#[allow(missing_docs, reason = "for expansions alone")]
pub mod __private;

// The public interface
pub use redlock_macros::redis_lock;

#[cfg(feature = "tls")]
pub use self::config::Tls;
#[cfg(feature = "tower")]
pub use self::http_answer::tower::{LockLayer, LockService};
#[cfg(feature = "serde")]
pub use self::redlock_config::RedlockConfig;
pub use self::{
    builder::Builder,
    config::{
        ConfigError, ConfigProblem, NODES_VARIABLE, Options, ProblemKind, Renew, SectionInfo,
    },
    election::{Election, Leadership},
    error::{FromLockError, LockError, NodeVerdict, QuarantineReason, Report, Verdict},
    guard::Guard,
    health::{Health, NodeState, NodeStatus, NotReady, Rejection, Why, WhyKind},
    inspect::{
        ClientProcess, Holder, HolderKind, InspectedNode, Inspection, LocalSection, RemoteWaiter,
    },
    install::Installed,
    leader::{Leader, Observation},
    lease::{FencingToken, Lease, Release},
    limitation::Limitation,
    lock::{Lock, Member},
    node::Credentials,
    redlock::{Redlock, ShutdownError},
};

/// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
