//! The nodes' wall clocks are wrong. Redis counts the life of a key on them, so a node whose clock
//! is set forward forgets a lock before its time, and one that is set back keeps it for longer.
//!
//! In most tests a lease is [`NEVER`] over, and clocks are set by more than that; what must not
//! happen by the time that passes in a test then cannot.

use std::time::Duration;

use crate::common::{
    NEVER, acquire_on_all, await_state, await_up, await_watched, connect, connect_by, found,
    unhurried,
};
use redlock_runtime::{LockError, NodeState, Redlock, Release, Verdict};
use redlock_tests::{Cluster, PATIENCE, Proxy, Server};
use tokio::time::timeout;

/// A lease that runs out in its test.
const BRIEF: Duration = Duration::from_secs(1);

/// Beyond every lease and its guard band.
const FAR: Duration = NEVER.saturating_mul(24);

// ---- within the assumptions

/// Of the nodes of a lock that all have granted; what a bare majority stands is below.
#[tokio::test]
async fn a_minority_that_is_set_far_forward_lets_nobody_else_in() {
    for stepped in 1..=2 {
        let cluster = clocked(5);
        let (holder, rival) = (connect(&cluster).await, connect(&cluster).await);
        let guard = acquire_on_all(&holder, &cluster, KEY).await;
        // So that the holder knows of all nodes.
        for _ in 0..2 {
            guard.extend().await.unwrap();
        }

        for node in cluster.iter().take(stepped) {
            node.clock().step(FAR);
        }
        assert_eq!(cluster.held_on(KEY), 5 - stepped, "they have forgotten");

        let error = rival.lock(KEY).acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Contended(_)), "{error}");
        guard.extend().await.unwrap();
        let error = rival.lock(KEY).acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Contended(_)), "{error}");
        assert!(guard.is_held());
        assert_eq!(guard.release().await, Release::Released);
        cluster.await_free(KEY).await;
    }
}

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

#[tokio::test]
async fn clocks_that_are_all_set_far_back_hold_nobody_up() {
    let cluster = clocked(5);
    let (one, two) = (connect(&cluster).await, connect(&cluster).await);
    let guard = acquire_on_all(&one, &cluster, KEY).await;
    let before = guard.fencing_token().unwrap();

    for node in &cluster {
        node.clock().step_back(FAR);
        assert!(node.pttl(KEY).unwrap() > FAR, "it keeps the key for longer");
    }

    assert!(guard.is_held());
    let error = two.lock(KEY).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Contended(_)), "{error}");
    assert_eq!(guard.release().await, Release::Released);
    cluster.await_free(KEY).await;
    // One attempt, and a token that does not depend on the clocks.
    let next = two.lock(KEY).acquire().await.unwrap();
    assert!(next.fencing_token().unwrap() > before);
    assert_eq!(next.release().await, Release::Released);
    cluster.await_free(KEY).await;
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

#[tokio::test]
async fn a_minority_that_drifts_by_a_fifth_does_not_cost_a_renewed_lock() {
    for percent in [20, -20] {
        let cluster = drifting(percent);
        let (holder, rival) = (connect(&cluster).await, connect(&cluster).await);
        let lock = holder.lock(KEY).expire(BRIEF * 2).renew_every(BRIEF / 5);
        let guard = lock.acquire().await.unwrap();

        for node in cluster.iter().skip(DRIFTING) {
            // What the key was given at first, and by renewals over more than a lease.
            node.await_event(KEY, "expire", 1 + 12).await;
        }

        let error = rival.lock(KEY).acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Contended(_)), "{error}");
        assert!(guard.is_held());
        assert_eq!(guard.release().await, Release::Released);
        cluster.await_free(KEY).await;
    }
}

/// It ends on the node, which counts by its own clock, but not for a client that saw it begin.
#[tokio::test]
async fn a_quarantine_is_not_shortened_by_a_clock_that_is_set_forward() {
    let cluster = clocked(3);
    let redlock = careful(&cluster).await;
    cluster[1].restart();
    await_state("a quarantine", || is_quarantined(&redlock, 1)).await;
    cluster[2].kill();

    cluster[1].clock().step(FAR);

    let error = redlock.lock(KEY).wait(BRIEF).acquire().await.unwrap_err();
    let verdict = error.verdicts()[1].verdict();
    assert!(matches!(verdict, Verdict::Quarantined { .. }), "{error}");
    assert!(is_quarantined(&redlock, 1));
    assert!(!cluster[1].exists(KEY));

    // Nor is it by a new connection.
    assert_eq!(cluster[1].kill_clients(), 1);
    await_state("a quarantine", || is_quarantined(&redlock, 1)).await;
    redlock.lock(KEY).wait(BRIEF).acquire().await.unwrap_err();
    assert!(!cluster[1].exists(KEY));
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
    let verdict = error.verdicts()[1].verdict();
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

#[tokio::test]
async fn a_node_whose_clock_stepped_within_the_guard_band_keeps_its_vote() {
    let cluster = clocked(3);
    let redlock = careful(&cluster).await;
    let guard = acquire_on_all(&redlock, &cluster, KEY).await;
    cluster[2].kill();

    cluster[1].clock().step(NEVER / 20);

    // Its vote is needed.
    guard.extend().await.unwrap();
    assert!(redlock.nodes()[1].is_up());
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

/// The holder has three of five nodes, and cannot reach the others.
#[tokio::test]
async fn one_clock_is_enough_where_a_lock_rests_on_a_bare_majority() {
    let cluster = clocked(5);
    let proxies = cluster.proxies();
    proxies[3..].iter().for_each(Proxy::refuse);
    let (holder, rival) = (connect_by(&proxies).await, connect(&cluster).await);
    let guard = holder.lock(KEY).acquire().await.unwrap();
    let token = guard.fencing_token().unwrap();
    assert_eq!(cluster.held_on(KEY), 3);

    cluster[2].clock().step(FAR);

    let next = rival.lock(KEY).acquire().await.unwrap();
    assert!(next.fencing_token().unwrap() > token);
    // The three that are not its own any more are a majority.
    let error = timeout(PATIENCE, guard.lost()).await.expect("it is told");
    assert!(matches!(error, LockError::Lost(_)), "{error}");
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
    let redlock = builder.build().await.unwrap();
    await_up(&redlock).await;
    redlock
}

// ---- the steps

fn is_quarantined(redlock: &Redlock, node: usize) -> bool {
    let nodes = redlock.nodes();
    matches!(nodes[node].state(), NodeState::Quarantined { .. })
}
