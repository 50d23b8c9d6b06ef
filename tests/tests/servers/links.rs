//! What a process owes its connections, and they it: connections that were idle, servers that refuse, and callers
//! that take nothing.

use std::time::Duration;

use crate::common::{
    NEVER, asks_for_its_record, await_state, await_up, connection_ids, unhurried, voting,
};
use futures_util::FutureExt;
use redlock_runtime::{Builder, LockError, NodeState, NodeStatus, Rejection};
use redlock_tests::{Cluster, PATIENCE, Proxy, Server};

/// In tests that wait for it.
const BRIEF: Duration = Duration::from_millis(100);

/// Of such nodes nothing is asked while nobody locks.
fn without_pings(urls: impl IntoIterator<Item = String>) -> Builder {
    unhurried(urls).ping_interval(NEVER)
}

#[tokio::test]
async fn pings_keep_connections_that_are_idle() {
    let cluster = Cluster::start_with(3, &Server::builder().args(["--timeout", "1"]));
    let proxies = cluster.proxies();
    let builder = unhurried(proxies.iter().map(Proxy::url)).ping_interval(BRIEF);
    let _redlock = voting(builder).await;
    for proxy in &proxies {
        let pings = |words: &[String]| asks_for_its_record(words);
        // For longer than the server waits.
        proxy
            .await_until("30 pings", move |traffic| {
                let commands = traffic.commands.iter();
                commands.filter(|command| pings(&command.words)).count() >= 30
            })
            .await;
        assert_eq!(proxy.traffic().accepted, 1);
    }
}

/// By something on the way, which tells nobody. The first call finds out, and is served while it waits.
#[tokio::test]
async fn connections_that_were_forgotten_while_idle_are_replaced_within_a_wait() {
    const LIMIT: Duration = Duration::from_secs(8);
    let cluster = Cluster::start(3);
    let proxies = cluster.proxies();
    let builder = without_pings(proxies.iter().map(Proxy::url));
    let redlock = voting(builder.connect_timeout(LIMIT)).await;
    // Only one that was idle for a second may be dead.
    tokio::time::sleep(Duration::from_secs(1)).await;
    proxies.iter().for_each(Proxy::forget);

    let guard = redlock.lock("k").wait(LIMIT * 3 / 4).acquire().await;

    guard.unwrap().release().await;
    let replaced = proxies.iter().filter(|it| it.traffic().accepted == 2);
    assert!(replaced.count() >= 2);
}

#[tokio::test]
async fn servers_that_hang_are_missed_although_nobody_locks() {
    let cluster = Cluster::start(3);
    let builder = unhurried(cluster.urls()).ping_interval(BRIEF);
    let redlock = voting(builder.connect_timeout(Duration::from_secs(1))).await;

    cluster.iter().for_each(Server::stop);

    let is_down = |node: &NodeStatus| matches!(node.state(), NodeState::Down { .. });
    await_state("all down", || redlock.health().nodes().iter().all(is_down)).await;
    assert!(!redlock.health().has_quorum());
    cluster.iter().for_each(Server::cont);
    await_up(&redlock).await;
}

#[tokio::test]
async fn servers_that_refuse_every_vote_are_said_not_to_vote() {
    for (option, value, well, rejection) in [
        ("maxmemory", "1", "0", Rejection::OutOfMemory),
        ("min-replicas-to-write", "1", "0", Rejection::TooFewReplicas),
    ] {
        let cluster = Cluster::start(3);
        let redlock = voting(without_pings(cluster.urls())).await;
        let connections: Vec<_> = cluster.iter().map(connection_ids).collect();
        for node in &cluster {
            node.command(&["CONFIG", "SET", option, value]);
        }

        let error = redlock.lock("k").acquire().await.unwrap_err();

        assert!(matches!(error, LockError::NoQuorum(_)), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("too many nodes rejected the request"),
            "{text}"
        );
        let refuses = || {
            let nodes = redlock.nodes();
            let refuses = |state: &NodeState| matches!(state, NodeState::Refuses { reason, .. } if *reason == rejection);
            nodes.iter().all(|node| refuses(node.state()))
        };
        await_state(option, refuses).await;
        assert!(!redlock.health().has_quorum());

        for node in &cluster {
            node.command(&["CONFIG", "SET", option, well]);
        }
        let votes = async {
            while !redlock.nodes().iter().all(NodeStatus::is_up) {
                let _ = redlock.lock("k").acquire().await;
            }
        };
        tokio::time::timeout(PATIENCE, votes).await.expect(option);
        let after: Vec<_> = cluster.iter().map(connection_ids).collect();
        assert_eq!(connections, after, "the connections are as good as before");
    }
}

#[tokio::test]
async fn a_grant_that_nobody_takes_is_not_renewed_for_ever() {
    let cluster = Cluster::start(3);
    let proxies = cluster.proxies();
    let (one, two) = tokio::join!(
        voting(unhurried(proxies.iter().map(Proxy::url))),
        voting(unhurried(cluster.urls()))
    );
    let lock = one.lock("k").expire(Duration::from_secs(4)).renew();
    let mut forgotten = Box::pin(lock.acquire());
    proxies.iter().for_each(Proxy::hold_replies);
    assert!(forgotten.as_mut().now_or_never().is_none());
    for proxy in &proxies {
        proxy.await_held_replies(1).await;
        proxy.pass();
    }

    let another = two.lock("k").wait(PATIENCE).acquire().await;

    drop(another.unwrap());
    let error = forgotten.await.map(drop).unwrap_err();
    assert!(matches!(error, LockError::Expired(_)), "{error}");
}
