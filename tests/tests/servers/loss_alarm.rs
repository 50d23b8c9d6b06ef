//! A holder that neither renews nor returns hears of the loss of its key at once: nothing but the
//! nodes' word can end these calls, because no time runs out in them.

use std::future::pending;

use crate::common::{await_watched, connect};
use redlock_runtime::{LockError, Redlock};
use redlock_tests::{Cluster, Server};
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};

#[tokio::test]
async fn a_key_that_is_gone_from_a_majority_is_lost() {
    for words in [
        &["DEL", "k"][..],
        &["SET", "k", "other", "PX", "1000000"],
        &["PEXPIRE", "k", "1"],
    ] {
        assert_lost_by(words).await;
    }
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

/// The call returns once the second of three nodes has lost the key, and not before.
async fn assert_lost_by(words: &[&str]) {
    let cluster = Cluster::start(3);
    let redlock = connect(&cluster).await;
    let mut call = hold(&redlock).await;
    await_watched(&cluster).await;

    cluster[0].command(words);
    // The holder has been told before the first of these has come and gone, and has looked again
    // before the second has.
    come_and_go(&redlock, "first", &cluster).await;
    come_and_go(&redlock, "second", &cluster).await;
    assert!(!call.is_finished(), "{:?}", (&mut call).await);

    cluster[1].command(words);
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

/// Takes and releases another lock until every node has taken part in it.
async fn come_and_go(redlock: &Redlock, key: &str, cluster: &Cluster) {
    let has_released = |node: &Server| node.events(key).iter().any(|event| event == "del");
    while !cluster.iter().all(has_released) {
        redlock.lock(key).acquire().await.unwrap().release().await;
    }
}
