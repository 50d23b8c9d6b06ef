//! How long a lock is held: leases that run out, renewals, losses, and what a release says.
//!
//! Where a lease has to run out, or must not while it is renewed, it is [`BRIEF`]. All others last
//! longer than any test.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use crate::common::{
    acquire_on_all, await_sent, connect, connect_by, extend_until_on_all, is_release,
};
use redlock_runtime::{LockError, Release};
use redlock_tests::{Cluster, PATIENCE, Proxy, Server};
use tokio::task::yield_now;

// ---- a lease that is not renewed

#[tokio::test]
async fn after_a_stall_of_its_runtime_a_body_without_lease_is_not_polled() {
    let cluster = Cluster::start(3);
    let redlock = connect(&cluster).await;
    let went_on = AtomicBool::new(false);

    let held = redlock.lock(KEY).expire(BRIEF).hold(async |_| {
        stall();
        yield_now().await;
        went_on.store(true, Ordering::Relaxed);
    });
    let error = in_time(held).await.unwrap_err();

    assert!(matches!(error, LockError::Expired(_)), "{error}");
    assert!(!went_on.into_inner());
}

// ---- renewals

#[tokio::test]
async fn a_stall_of_its_runtime_does_not_cost_a_renewed_lock() {
    let cluster = Cluster::start(3);
    let redlock = connect(&cluster).await;

    let lock = redlock.lock(KEY).expire(BRIEF).renew();
    let held = lock.hold(async |lease| {
        stall();
        let held = lease.is_held();
        yield_now().await;
        held
    });

    assert!(in_time(held).await.unwrap());
}

#[tokio::test]
async fn nothing_of_an_owner_follows_its_release() {
    let renewal = Duration::from_millis(20);
    let cluster = Cluster::start(3);
    let proxies = cluster.proxies();
    let redlock = connect_by(&proxies).await;
    await_sent(&redlock, &cluster).await;

    let guard = redlock.lock(KEY).renew_every(renewal).acquire().await;
    await_renewals(&cluster, KEY, 3).await;
    let owner = cluster[0].get(KEY).unwrap();
    assert_eq!(guard.unwrap().release().await, Release::Released);

    // Time for several renewals, if there were any.
    let later = redlock.lock("later").renew_every(renewal).acquire().await;
    await_renewals(&cluster, "later", 5).await;
    assert!(later.unwrap().is_held());
    for proxy in &proxies {
        let commands = sent(proxy, &owner);
        // The grant, the renewals, one release.
        assert!(commands.len() >= 5, "{commands:?}");
        let releases = commands.iter().filter(|words| is_release(words));
        assert_eq!(releases.count(), 1);
        assert!(is_release(commands.last().unwrap()), "{commands:?}");
    }
}

// ---- extensions by the holder

/// On a minority that has lost it the key is put back, once a majority has extended the lease.
#[tokio::test]
async fn an_extension_never_makes_a_lock_again_that_a_majority_has_lost() {
    assert!(extend_without(3).await);
    let tried = async { while !extend_without(1).await {} };
    let tried = tokio::time::timeout(PATIENCE, tried).await;
    tried.expect("a lock on three nodes lives on with two");
}

/// False if the lock was lost with one key, because its holder had not read the reply of the third node
/// yet: it knew of a bare majority, then.
async fn extend_without(gone: usize) -> bool {
    let cluster = deaf_cluster();
    let proxies = cluster.proxies();
    let redlock = connect_by(&proxies).await;
    let guard = acquire_on_all(&redlock, &cluster, KEY).await;
    delete(cluster.iter().take(gone));
    proxies.iter().for_each(Proxy::clear);

    let extended = guard.extend().await;
    let is_lost = matches!(extended, Err(LockError::Lost(_)));
    if gone == 1 {
        if is_lost {
            return false;
        }
        extend_until_on_all(&guard, &cluster, KEY).await;
    } else {
        assert!(is_lost, "{extended:?}");
    }
    await_sent(&redlock, &cluster).await;
    assert_eq!(cluster.held_on(KEY), if gone == 1 { 3 } else { 0 });
    for (node, proxy) in cluster.iter().zip(&proxies).take(gone) {
        assert!(!sent(proxy, KEY).is_empty(), "it was not tried");
        let mut events = node.events(KEY);
        if gone == 1 {
            let mut again = events.split_off(3);
            let extended = again.split_off(2);
            assert_eq!(again, ["set", "expire"]);
            assert!(extended.iter().all(|event| event == "expire"));
        }
        assert_eq!(events, ["set", "expire", "del"]);
    }
    true
}

// ---- what a release says

#[tokio::test]
async fn after_a_shutdown_there_is_no_token_and_a_release_is_unknown() {
    let cluster = Cluster::start(3);
    let redlock = connect(&cluster).await;
    let guard = acquire_on_all(&redlock, &cluster, KEY).await;
    let left = redlock.shutdown(Duration::ZERO).await.unwrap_err();
    assert_eq!(left.held, 1);

    assert!(matches!(guard.fencing_token(), Err(LockError::Stopped(_))));
    assert_eq!(in_time(guard.release()).await, Release::Unknown);
}

// ---- the steps

const KEY: &str = "lease";

/// Is there to run out, or to be renewed in time on a busy machine.
const BRIEF: Duration = Duration::from_millis(900);

/// Servers that do not tell of changes.
fn deaf_cluster() -> Cluster {
    let cluster = Cluster::start(3);
    for node in &cluster {
        node.command(&["ACL", "SETUSER", "default", "-client|tracking"]);
    }
    cluster
}

async fn await_renewals(cluster: &Cluster, key: &str, count: usize) {
    await_event_everywhere(cluster, key, "expire", 1 + count).await;
}

async fn await_event_everywhere(cluster: &Cluster, key: &str, event: &str, count: usize) {
    for node in cluster {
        node.await_event(key, event, count).await;
    }
}

fn delete<'a>(nodes: impl IntoIterator<Item = &'a Server>) {
    for node in nodes {
        node.command(&["DEL", KEY]);
    }
}

/// Longer than a lease.
fn stall() {
    thread::sleep(BRIEF * 2);
}

/// The scripts sent with `word` among their arguments.
fn sent(proxy: &Proxy, word: &str) -> Vec<Vec<String>> {
    let commands = proxy.traffic().commands.into_iter();
    commands
        .filter(|command| command.name() == "EVALSHA" || is_release(&command.words))
        .map(|command| command.words)
        .filter(|words| words.iter().any(|of| of == word))
        .collect()
}

/// So that what never ends fails its test.
async fn in_time<F: Future>(future: F) -> F::Output {
    let ended = tokio::time::timeout(PATIENCE, future).await;
    ended.expect("it ends")
}
