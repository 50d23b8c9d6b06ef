//! Redlock.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "clippy.toml bans them for `protocol` alone, which denies these lints"
)]

mod builder;
mod config;
mod engine;
mod error;
mod guard;
mod install;
mod lock;
mod node;
mod protocol;
mod redlock;
mod script;
mod section;

#[doc(hidden)]
#[path = "macro_support.rs"]
pub mod __private;

// The public interface
pub use self::{
    builder::Builder,
    config::{ConfigError, ConfigProblem, NODES_VARIABLE},
    error::{FromLockError, LockError, NodeVerdict, Report, Verdict},
    guard::{Guard, Lease, Release},
    install::Installed,
    lock::Lock,
    redlock::{Connection, NodeStatus, Redlock, ShutdownError},
};
