//! A holder that neither renews nor returns hears of the loss of its key at once: nothing but the
//! nodes' word can end these calls, because no time runs out in them.

use std::future::pending;

use crate::common::{
    acquire_on_all, await_quarantine, await_state, await_up, await_watched, connect, connect_by,
    connection_ids, extend_by, found, unhurried,
};
use redlock_runtime::{LockError, Redlock, Release};
use redlock_tests::{Cluster, Server};
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};

#[tokio::test]
async fn a_key_deleted_on_a_majority_is_lost() {
    assert_lost_by(|node| drop(node.command(&["DEL", "k"]))).await;
}

#[tokio::test]
async fn a_key_flushed_on_one_node_after_the_other_is_put_back() {
    let cluster = Cluster::start(3);
    let proxies = cluster.proxies();
    let redlock = connect_by(&proxies).await;
    let guard = acquire_on_all(&redlock, &cluster, "k").await;
    await_watched(&cluster).await;
    for (number, node) in cluster.iter().enumerate() {
        node.command(&["FLUSHALL"]);
        node.await_event("k", "set", 2).await;
        extend_by(&guard, number, &proxies).await;
    }
    assert_eq!(guard.release().await, Release::Released);
}

/// Nodes that were flushed do not vote here, and so are not given the key again in between.
#[tokio::test]
async fn a_key_flushed_on_a_majority_is_lost() {
    let cluster = Cluster::start(3);
    found(&cluster, unhurried).await;
    let builder = unhurried(cluster.urls()).assume_fresh(false);
    let redlock = builder.build().await.unwrap();
    let mut call = hold(&redlock).await;
    await_watched(&cluster).await;

    cluster[0].command(&["FLUSHALL"]);
    await_quarantine(&redlock, 0).await;
    assert!(!call.is_finished(), "{:?}", (&mut call).await);

    cluster[1].command(&["FLUSHALL"]);
    let lost = timeout(redlock_tests::PATIENCE, call).await;
    let error = lost.expect("the call returns").unwrap();
    assert!(matches!(error, LockError::Lost(_)), "{error}");
}

/// A server tells of it as of a flush of ours, and forgets whom it was to tell of what.
#[tokio::test]
async fn a_flush_of_another_database_loads_no_script_and_makes_nobody_deaf() {
    let cluster = Cluster::start(3);
    let redlock = connect(&cluster).await;
    let call = hold(&redlock).await;
    await_watched(&cluster).await;
    for node in &cluster {
        node.reset_counts();
        let other = redis::Client::open(format!("{}/1", node.own_url()));
        let mut other = other.unwrap().get_connection().unwrap();
        redis::cmd("FLUSHDB").exec(&mut other).unwrap();
    }
    await_watched(&cluster).await;
    for node in &cluster {
        assert_eq!(node.count("script|load"), 0);
        assert_eq!(node.count("evalsha"), 1, "it is asked for its record");
    }
    assert!(!call.is_finished());
    for node in &cluster {
        node.command(&["DEL", "k"]);
    }
    let lost = timeout(redlock_tests::PATIENCE, call).await;
    lost.expect("the call returns").unwrap();
}

#[tokio::test]
async fn a_key_that_others_set_on_a_majority_is_lost() {
    assert_lost_by(|node| drop(node.command(&["SET", "k", "other", "PX", "1000000"]))).await;
}

#[tokio::test]
async fn a_key_that_was_made_to_expire_on_a_majority_is_lost() {
    assert_lost_by(|node| drop(node.command(&["PEXPIRE", "k", "1"]))).await;
}

/// The call returns once the second of three nodes has lost the key, and not before.
async fn assert_lost_by(spoil: fn(&Server)) {
    let cluster = Cluster::start(3);
    let redlock = connect(&cluster).await;
    let mut call = hold(&redlock).await;
    await_watched(&cluster).await;

    spoil(&cluster[0]);
    // The holder has been told before the first of these has come and gone, and has looked again
    // before the second has.
    come_and_go(&redlock, "first", &cluster).await;
    come_and_go(&redlock, "second", &cluster).await;
    assert!(!call.is_finished(), "{:?}", (&mut call).await);

    spoil(&cluster[1]);
    let lost = timeout(redlock_tests::PATIENCE, call).await;
    let error = lost.expect("the call returns").unwrap();
    assert!(matches!(error, LockError::Lost(_)), "{error}");
}

/// Holds the lock in a body that hangs; what the call comes to.
async fn hold(redlock: &Redlock) -> JoinHandle<LockError> {
    let lock = redlock.lock("k");
    let (entered, is_inside) = oneshot::channel();
    let call = tokio::spawn(async move {
        let body = lock.hold(async |_| {
            entered.send(()).unwrap();
            pending::<()>().await;
        });
        body.await.unwrap_err()
    });
    is_inside.await.unwrap();
    call
}

/// Takes and releases another lock until every node has taken part in it: one that was flushed
/// must be admitted again first.
async fn come_and_go(redlock: &Redlock, key: &str, cluster: &Cluster) {
    let has_released = |node: &Server| node.events(key).iter().any(|event| event == "del");
    while !cluster.iter().all(has_released) {
        redlock.lock(key).acquire().await.unwrap().release().await;
    }
}

#[tokio::test]
async fn a_new_connection_does_not_make_the_alarm_deaf() {
    let cluster = Cluster::start(3);
    let redlock = connect(&cluster).await;
    let mut call = hold(&redlock).await;
    await_watched(&cluster).await;
    for node in &cluster {
        let killed = connection_ids(node);
        assert_eq!(node.kill_clients(), 1);
        await_state("a new connection", || {
            let ids = connection_ids(node);
            !ids.is_empty() && ids.iter().all(|id| !killed.contains(id))
        })
        .await;
    }
    await_up(&redlock).await;
    for node in &cluster {
        node.command(&["DEL", "k"]);
    }
    let lost = timeout(redlock_tests::PATIENCE, &mut call).await;
    lost.expect("the call returns").unwrap();
}
