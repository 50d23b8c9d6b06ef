//! Every way out of a section leaves nothing on any node. The leases never end here, so that only a
//! release can free a node.

use std::{
    future::{pending, poll_fn, ready},
    pin::Pin,
    task::Poll,
    thread,
    time::Duration,
};

use crate::common::{await_state, connect, connect_by, unhurried};
use futures_util::future::try_join_all;
use redlock_runtime::{LockError, Redlock, redis_lock};
use redlock_tests::{Cluster, PATIENCE, Proxy, Server};
use tokio::{
    runtime::{self, Runtime},
    sync::oneshot,
};

// ---- the call is cancelled

#[tokio::test]
async fn a_call_cancelled_after_the_nodes_have_granted_unheard_is_released() {
    let cluster = Cluster::start(5);
    let proxies = cluster.proxies();
    let redlock = connect_by(&proxies).await;
    proxies.iter().for_each(Proxy::hold_replies);
    let mut call = Box::pin(section(&redlock, ready(())));
    assert!(is_pending(&mut call).await);
    for proxy in &proxies {
        proxy.await_held_replies(1).await;
    }
    assert_eq!(cluster.held_on(KEY), 5);

    drop(call);

    proxies.iter().for_each(Proxy::pass);
    await_come_and_gone(&cluster).await;
}

#[tokio::test]
async fn a_release_goes_on_when_nobody_waits_for_it_any_more() {
    for polled in [false, true] {
        let cluster = Cluster::start(5);
        let proxies = cluster.proxies();
        let redlock = connect_by(&proxies).await;
        let guard = redlock.lock(KEY).acquire().await.unwrap();
        proxies.iter().for_each(Proxy::hold_requests);

        let mut release = Box::pin(guard.release());
        if polled {
            assert!(is_pending(&mut release).await);
        }
        drop(release);

        proxies.iter().for_each(Proxy::pass);
        await_come_and_gone(&cluster).await;
    }
}

// ---- the caller's runtime is gone, or there is none

#[test]
fn a_multi_thread_runtime_dropped_under_a_body_is_released() {
    dropped_under_a_body(runtime::Builder::new_multi_thread().worker_threads(2));
}

#[test]
fn a_current_thread_runtime_dropped_under_a_body_is_released() {
    dropped_under_a_body(&mut runtime::Builder::new_current_thread());
}

fn dropped_under_a_body(callers: &mut runtime::Builder) {
    let test = Runtime::new().unwrap();
    let cluster = Cluster::start(5);
    let redlock = test.block_on(connect(&cluster));
    let callers = callers.build().unwrap();
    let (body, inside) = endless();
    let of_task = redlock.clone();
    callers.spawn(async move { section(&of_task, body).await });
    callers.block_on(inside).unwrap();

    drop(callers);

    test.block_on(await_come_and_gone(&cluster));
}

#[tokio::test]
async fn a_guard_dropped_outside_any_runtime_is_released() {
    let cluster = Cluster::start(5);
    let redlock = connect(&cluster).await;
    let guard = redlock.lock(KEY).acquire().await.unwrap();

    // Nothing else of the node set is left.
    drop(redlock);
    let thread = thread::spawn(move || {
        assert!(runtime::Handle::try_current().is_err());
        drop(guard);
    });
    thread.join().unwrap();

    await_come_and_gone(&cluster).await;
}

#[tokio::test]
async fn a_guard_dropped_before_a_shutdown_that_waits_for_nothing_is_released() {
    let cluster = Cluster::start(5);
    let redlock = connect(&cluster).await;
    let guard = redlock.lock(KEY).acquire().await.unwrap();

    drop(guard);
    let _ = redlock.shutdown(Duration::ZERO).await;

    await_come_and_gone(&cluster).await;
}

#[tokio::test]
async fn a_body_that_a_shutdown_cuts_off_is_released() {
    let cluster = Cluster::start(5);
    let redlock = connect(&cluster).await;
    let (body, inside) = endless();
    let lock = redlock.lock(KEY);
    let task = tokio::spawn(async move { lock.hold(async |_| body.await).await });
    inside.await.unwrap();

    let left = redlock.shutdown(Duration::ZERO).await.unwrap_err();
    assert_eq!((left.held, left.unconfirmed), (1, 0));
    let error = task.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::Stopped(_)), "{error}");

    await_come_and_gone(&cluster).await;
}

/// One node is gone when it begins, or does not reply any more.
#[tokio::test(flavor = "multi_thread")]
async fn many_guards_dropped_in_a_shutdown_beside_a_dead_node_are_released() {
    for die in [Server::kill, Server::stop] {
        let cluster = Cluster::start(3);
        let builder = unhurried(cluster.urls()).connect_timeout(Duration::from_secs(1));
        let redlock = builder.build().await.unwrap();
        let mut guards = Vec::new();
        for batch in 0..200 {
            let locks = (0..100).map(|number| redlock.lock(format!("{batch}:{number}")).acquire());
            guards.extend(try_join_all(locks).await.unwrap());
        }
        die(&cluster[1]);
        let (stopped, ()) = tokio::join!(redlock.shutdown(PATIENCE), async { drop(guards) });
        assert_eq!(stopped, Ok(()));
        for node in [0, 2] {
            assert_eq!(cluster[node].keys(), ["__redlock:node:0"]);
        }
    }
}

// ---- the steps

const KEY: &str = "section";

const MAJORITY: usize = 3;

#[redis_lock(key = "section", via = redlock)]
async fn section<T>(redlock: &Redlock, body: impl Future<Output = T>) -> Result<T, LockError> {
    Ok(body.await)
}

/// A body that never ends, and the news that it has begun.
fn endless() -> (impl Future<Output = ()> + Send, oneshot::Receiver<()>) {
    let (begun, inside) = oneshot::channel();
    let body = async move {
        begun.send(()).unwrap();
        pending().await
    };
    (body, inside)
}

async fn is_pending<F: Future>(future: &mut Pin<Box<F>>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

/// Waits until a majority of the nodes has held the key and let go of it, and fails unless that happened
/// once and by deletion, on the others, too, if they were asked. Nodes that have merely not been reached
/// yet do not pass for free ones.
async fn await_come_and_gone(cluster: &Cluster) {
    let has_gone = |node: &&Server| node.events(KEY).iter().any(|event| event == "del");
    let gone = || cluster.iter().filter(has_gone).count();
    await_state("a release on a majority", || gone() >= MAJORITY).await;
    cluster.await_free(KEY).await;
    for node in cluster.iter().filter(|node| !node.events(KEY).is_empty()) {
        node.await_event(KEY, "del", 1).await;
        assert_eq!(node.events(KEY), ["set", "expire", "del"]);
    }
}
