//! Locks without async, over real servers. What does not need them is in
//! `redlock-runtime/tests/locks/blocking.rs`.

mod common;

use std::{sync::mpsc, thread, time::Duration};

use common::{NEVER, connect};
use redlock_runtime::LockError;
use redlock_tests::Cluster;
use tokio::runtime::Runtime;

const KEY: &str = "blocking";

#[test]
fn a_shutdown_wakes_threads_that_wait() {
    let (runtime, cluster) = start();
    let redlock = runtime.block_on(connect(&cluster));
    let guard = redlock.lock(KEY).acquire_blocking().unwrap();
    let (tells, told) = mpsc::channel();
    let lock = redlock.lock(KEY).wait(NEVER);
    let waits = thread::spawn(move || {
        tells.send(()).unwrap();
        lock.acquire_blocking().unwrap_err()
    });
    told.recv().unwrap();
    let left = runtime.block_on(redlock.shutdown(Duration::ZERO));
    assert!(left.is_err(), "the guard is left");
    let error = waits.join().unwrap();
    assert!(matches!(error, LockError::Stopped(_)), "{error}");
    drop(guard);
}

/// The runtime that the tests look at the servers from. No thread drives it in between.
fn start() -> (Runtime, Cluster) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    (builder.enable_all().build().unwrap(), Cluster::start(3))
}
