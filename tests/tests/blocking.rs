//! Locks without async, over real servers. What does not need them is in
//! `redlock-runtime/tests/blocking.rs`.

mod common;

use std::{sync::mpsc, thread, time::Duration};

use common::{NEVER, connect};
use redlock_runtime::LockError;
use redlock_tests::{Cluster, PATIENCE};
use tokio::runtime::Runtime;

const KEY: &str = "blocking";

#[test]
fn a_body_whose_lock_is_lost_runs_on_and_is_told_when_it_asks() {
    let (runtime, cluster) = start();
    let redlock = runtime.block_on(connect(&cluster));
    let returned = redlock.lock(KEY).hold_blocking(|lease| {
        runtime.block_on(common::await_watched(&cluster));
        for node in &cluster {
            node.command(&["DEL", KEY]);
        }
        let lost = runtime.block_on(async { tokio::time::timeout(PATIENCE, lease.lost()).await });
        assert!(matches!(lost, Ok(LockError::Lost(_))), "{lost:?}");
        assert!(!lease.is_held());
        let token = lease.fencing_token();
        assert!(matches!(token, Err(LockError::Lost(_))), "{token:?}");
        "done all the same"
    });
    assert_eq!(returned.unwrap(), "done all the same");
}

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
