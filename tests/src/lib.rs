//! Real servers, faulty networks and worker processes for the tests of `redlock-runtime`.
//!
//! Nothing here knows the library under test: a [`Server`] is a `redis-server` process, a
//! [`Cluster`] is several of them, a [`Proxy`] spoils the network in front of one, a [`Worker`] is
//! a child process that talks in lines, and a [`Counter`] finds out whether sections overlapped.
//! [`Postgres`] is a database to be guarded.
//!
//! Tests wait for events, never for time. A wait that is called `wait_*` blocks the thread,
//! and `await_*` is a future. Use `await_*` inside `#[tokio::test]`, where a blocked thread
//! would also stop the tasks of the test. Both give up after [`PATIENCE`] and then fail the test,
//! saying what they waited for and what they saw instead.
//!
//! Everything started here dies with its value, also when the test panics, and with the test
//! process, also when that is killed.

#![allow(missing_debug_implementations, reason = "nobody prints a server")]

mod cluster;
mod counter;
mod log;
mod port;
mod postgres;
mod process;
mod proxy;
mod reaper;
mod redis_cluster;
mod resp;
mod sentinel;
mod server;
mod stand_in;
mod wait;
mod worker;

pub use cluster::Cluster;
pub use counter::{Counter, Tally};
pub use port::Port;
pub use postgres::Postgres;
pub use process::processor_time;
pub use proxy::{Command, Mode, Proxy, Traffic};
pub use redis_cluster::RedisCluster;
pub use sentinel::Sentinel;
pub use server::{Clock, Server, ServerBuilder};
pub use stand_in::StandIn;
pub use wait::PATIENCE;
pub use worker::Worker;

pub use redis;
