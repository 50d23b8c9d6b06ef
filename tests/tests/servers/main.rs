//! The library over real servers and stores.
//!
//! One program, so that tests that wait for a lease to end do so at the same time, and the library is
//! linked once.
//!
//! Bugs that other lock libraries had or have are seen by tests that are about more than the bug:
//! - node-redlock #369, an expired lock that is handed out, an extension that revives one, and a retry that is blocked
//!   by the attempt before; node-redlock #167, a lease that counts from the replies: `suite::acquire` and `suite::hold`
//!   of the protocol.
//! - Redisson #3636, RedLock.net #93 and #46, a holder that cannot reach the servers, or hears of no renewal, and says
//!   that it holds: `suite::hold`, and `memory_loss`.
//! - redlock-rb #36, an extension that makes an expired key again: `lease`.
//! - redlock-rb #76, antirez/redlock-rb #3, a node that timed out after it had granted: `faults`.
//! - redsync #186, #147 and #149, a majority that loses a node that forgets: `restarts`, and `lease` of extensions.
//! - Redisson #5698, #3194 and #1626, renewals while others wait, after an outage, and after the end: `suite::hold`,
//!   and `lease`.
//! - Redisson #2669, its RedLock had no fencing tokens: `fencing`.
//! - pottery #274 and rslock, guards that are dropped last, under tokio, or when their engine is gone: `ways_out`.
//! - rslock, a node that does not answer and holds everybody up: `faults`.
//! - aiocache #979, tasks that release each other's locks: `chaos`.
//! - redis-rs #514 and #1552, requests that nobody polls: `ways_out`.
//! - redis-rs, `Script::invoke_async` that does not see that the server is another one: `suite::quarantine`.

#[path = "../common/mod.rs"]
mod common;

mod at_least;
mod clocks;
mod cluster;
mod configuration;
mod contract;
mod credentials;
mod election;
mod eviction;
mod faults;
mod fencing;
mod guide;
mod inspect;
mod late;
mod lease;
mod links;
mod loss_alarm;
mod managed;
mod memory_loss;
mod other_library;
mod replacing;
mod restarts;
mod rights;
mod sentinels;
mod tls;
mod ways_out;
