//! The nodes' wall clocks are wrong. Redis counts the life of a key on them, so a node whose clock
//! is set forward forgets a lock before its time, and one that is set back keeps it for longer.
//!
//! In most tests a lease is [`NEVER`] over, and clocks are set by more than that; what must not
//! happen by the time that passes in a test then cannot.

use std::time::Duration;

use crate::common::{
    NEVER, acquire_on_all, await_state, await_watched, connect, found, unhurried, voting,
};
use redlock_runtime::{LockError, NodeState, Redlock, Release, Verdict};
use redlock_tests::{Cluster, PATIENCE, Server};
use tokio::time::timeout;

/// A lease that runs out in its test.
const BRIEF: Duration = Duration::from_secs(1);

/// Beyond every lease and its guard band.
const FAR: Duration = NEVER.saturating_mul(24);

// ---- within the assumptions

/// The keys lose most of what they live longer than the lease, and nothing of the lease.
#[tokio::test]
async fn clocks_that_are_all_set_forward_within_the_guard_band_let_nobody_in_early() {
    let (guard_band, step) = (BRIEF * 6, BRIEF * 6 - BRIEF / 10);
    let cluster = clocked(5);
    let builder = || unhurried(cluster.urls()).guard_band(guard_band);
    let holder = builder().build().await.unwrap();
    let rival = builder().build().await.unwrap();
    let guard = holder.lock(KEY).expire(BRIEF).acquire().await.unwrap();

    for node in &cluster {
        node.clock().step(step);
    }

    let next = rival.lock(KEY).wait(PATIENCE).acquire().await.unwrap();
    assert!(!guard.is_held(), "the leases of two holders overlap");
    drop(next);
}

/// A fast node forgets the key within the lease, as the guard band is half of what it gains.
#[tokio::test]
async fn a_minority_that_drifts_by_a_fifth_lets_nobody_in_early() {
    for percent in [20, -20] {
        let cluster = drifting(percent);
        let builder = || unhurried(cluster.urls()).guard_band(BRIEF / 10);
        let holder = builder().build().await.unwrap();
        let rival = builder().build().await.unwrap();
        let guard = holder.lock(KEY).expire(BRIEF).acquire().await.unwrap();

        let next = rival.lock(KEY).wait(PATIENCE).acquire().await.unwrap();

        assert!(!guard.is_held(), "the leases of two holders overlap");
        drop(next);
    }
}

// ---- a node whose clock ran ahead of the guard band is set aside

#[tokio::test]
async fn a_node_whose_clock_ran_ahead_of_the_guard_band_loses_its_vote() {
    let cluster = clocked(3);
    let redlock = careful(&cluster).await;
    let guard = acquire_on_all(&redlock, &cluster, KEY).await;

    cluster[2].kill();
    await_state("a node down", || {
        let nodes = redlock.nodes();
        matches!(nodes[2].state(), NodeState::Down { .. })
    })
    .await;

    // The guard band is a tenth of the lease; the key outlives the step.
    cluster[1].clock().step(NEVER / 5);
    assert!(cluster[1].exists(KEY));
    let error = guard.extend().await.unwrap_err();

    assert!(matches!(error, LockError::NoQuorum(_)), "{error}");
    let verdict = &error.verdicts()[1].verdict;
    assert!(
        matches!(verdict, Verdict::ClockAhead { by } if *by > NEVER / 10),
        "{error}"
    );
    let state = redlock.nodes()[1].state().clone();
    assert!(matches!(state, NodeState::ClockAhead { .. }));
    let error = redlock.lock("other").acquire().await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum(_)), "{error}");
    assert_eq!(cluster[1].events("other"), [""; 0]);
    assert!(guard.is_held());
}

// ---- outside the assumptions: what is left is that the holder hears of it, and the token

#[tokio::test]
async fn a_holder_hears_that_clocks_were_set_beyond_the_guard_band() {
    let cluster = clocked(5);
    let redlock = connect(&cluster).await;
    let guard = acquire_on_all(&redlock, &cluster, KEY).await;
    await_watched(&cluster).await;

    for node in &cluster {
        node.clock().step(FAR);
    }

    let error = timeout(PATIENCE, guard.lost()).await.expect("it is told");
    assert!(matches!(error, LockError::Lost(_)), "{error}");
    assert!(!guard.is_held());
}

#[tokio::test]
async fn who_gets_in_by_clocks_that_were_set_too_far_has_the_larger_token() {
    let cluster = clocked(5);
    let (holder, intruder) = (connect(&cluster).await, connect(&cluster).await);
    let guard = acquire_on_all(&holder, &cluster, KEY).await;
    let token = guard.fencing_token().unwrap();
    await_watched(&cluster).await;

    for node in &cluster {
        node.clock().step(FAR);
    }
    let next = intruder.lock(KEY).acquire().await.unwrap();

    assert!(next.fencing_token().unwrap() > token);
    let error = timeout(PATIENCE, guard.lost()).await.expect("it is told");
    assert!(matches!(error, LockError::Lost(_)), "{error}");
    assert_eq!(guard.release().await, Release::AlreadyExpired);
    assert!(next.is_held());
    assert_eq!(next.release().await, Release::Released);
}

// ---- the nodes

const KEY: &str = "k";

/// How many of five nodes drift.
const DRIFTING: usize = 2;

fn clocked(size: usize) -> Cluster {
    Cluster::start_with(size, &Server::builder().own_clock())
}

fn drifting(percent: i8) -> Cluster {
    let cluster = clocked(5);
    for node in cluster.iter().take(DRIFTING) {
        node.clock().drift(percent);
    }
    cluster
}

/// A node set whose quarantines outlast every test, over nodes that have been in use by a client
/// that has gone again.
async fn careful(cluster: &Cluster) -> Redlock {
    found(cluster, unhurried).await;
    let builder = unhurried(cluster.urls()).assume_fresh(false);
    voting(builder).await
}
