//! Locks by the public API, on nodes in memory.

mod auto_traits;
mod blocking;
mod calls;
mod inspect;
mod nested;
mod paused_time;
mod permits;
mod shared;

use std::sync::atomic::{AtomicU32, Ordering};

use redlock_runtime::{Builder, ConfigProblem, LockError, Redlock};

/// Three nodes that nobody else has.
fn builder() -> Builder {
    static BUILDERS: AtomicU32 = AtomicU32::new(0);
    let number = BUILDERS.fetch_add(1, Ordering::Relaxed);
    Redlock::builder().nodes([1, 2, 3].map(|node| format!("memory://locks-{number}-{node}")))
}

async fn redlock() -> Redlock {
    builder().build().await.unwrap()
}

/// The only one.
fn problem(error: &LockError) -> &ConfigProblem {
    match error {
        LockError::Config(error) if error.problems().len() == 1 => &error.problems()[0],
        other => panic!("{other}"),
    }
}
