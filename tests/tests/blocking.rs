//! Locks without async, over real servers. What does not need them is in
//! `redlock-runtime/tests/blocking.rs`.

mod common;

use std::{
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use common::{NEVER, connect, unhurried};
use redlock_runtime::{LockError, Redlock, Release};
use redlock_tests::{Cluster, PATIENCE, Proxy};
use tokio::runtime::Runtime;

const KEY: &str = "blocking";

#[test]
fn sections_of_threads_of_two_processes_never_overlap() {
    const THREADS: usize = 4;
    const SECTIONS: usize = 20;
    let (runtime, cluster) = start();
    let sets = [0, 1].map(|_| runtime.block_on(connect(&cluster)));
    let (is_taken, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let section = |redlock: &Redlock| {
        let lock = redlock.lock(KEY).wait(NEVER);
        let held = lock.hold_blocking(|lease| {
            assert!(!is_taken.swap(true, Ordering::SeqCst), "two at once");
            thread::yield_now();
            is_taken.store(false, Ordering::SeqCst);
            done.fetch_add(1, Ordering::SeqCst);
            lease.fencing_token().unwrap()
        });
        held.unwrap()
    };
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let redlock = &sets[thread % sets.len()];
            scope.spawn(move || {
                let tokens: Vec<_> = (0..SECTIONS).map(|_| section(redlock)).collect();
                assert!(tokens.is_sorted());
            });
        }
    });
    assert_eq!(done.into_inner(), THREADS * SECTIONS);
    runtime.block_on(cluster.await_free(KEY));
}

#[test]
fn a_renewed_section_outlives_its_lease() {
    const LEASE: Duration = Duration::from_millis(900);
    let (runtime, cluster) = start();
    let redlock = runtime.block_on(connect(&cluster));
    let lock = redlock.lock(KEY).expire(LEASE);
    let held = lock.hold_blocking(|lease| {
        for node in &cluster {
            // The lease would be over after the third.
            node.wait_event(KEY, "expire", 5);
        }
        lease.is_held()
    });
    assert!(held.unwrap());
    runtime.block_on(cluster.await_free(KEY));
}

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
fn a_thread_that_waits_in_vain_returns_in_time_and_leaves_nothing() {
    let (runtime, cluster) = start();
    let (one, two) = (
        runtime.block_on(connect(&cluster)),
        runtime.block_on(connect(&cluster)),
    );
    let guard = one.lock(KEY).acquire_blocking().unwrap();
    let waits = two.lock(KEY).wait(Duration::from_millis(50));
    let refused = waits.hold_blocking(|_| unreachable!("it has no lock"));
    assert!(
        matches!(refused, Err(LockError::Contended(_))),
        "{refused:?}"
    );
    assert_eq!(guard.release_blocking(), Release::Released);
    runtime.block_on(cluster.await_free(KEY));
}

#[test]
fn without_a_majority_no_thread_is_kept() {
    let (runtime, cluster) = start();
    let proxies = cluster.proxies();
    let urls = proxies.iter().map(Proxy::url);
    let redlock = runtime.block_on(unhurried(urls).build()).unwrap();
    proxies.iter().for_each(Proxy::refuse);
    let refused = redlock.lock(KEY).acquire_blocking();
    assert!(
        matches!(refused, Err(LockError::NoQuorum(_))),
        "{refused:?}"
    );
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
