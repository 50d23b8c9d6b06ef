//! What a process owes its connections, and they it: connections that were idle, servers that hang while
//! nobody locks, servers that refuse, and servers that are slower than their clients.

use std::time::Duration;

use crate::common::{NEVER, asks_for_its_record, await_state, await_up, connection_ids, unhurried};
use futures_util::FutureExt;
use redlock_runtime::{Builder, LockError, NodeState, Redlock, Rejection};
use redlock_tests::{Cluster, Mode, PATIENCE, Proxy, Server};

/// In tests that wait for it.
const BRIEF: Duration = Duration::from_millis(100);

/// Of such nodes nothing is asked while nobody locks.
fn without_pings(urls: impl IntoIterator<Item = String>) -> Builder {
    unhurried(urls).ping_interval(NEVER)
}

async fn build(builder: Builder) -> Redlock {
    let redlock = builder.build().await.unwrap();
    await_up(&redlock).await;
    redlock
}

fn is_down(redlock: &Redlock) -> bool {
    let nodes = redlock.nodes();
    let is_down = |state: &NodeState| matches!(state, NodeState::Down { .. });
    nodes.iter().all(|node| is_down(node.state()))
}

#[tokio::test]
async fn connections_that_something_on_the_way_has_forgotten_are_replaced() {
    let cluster = Cluster::start(3);
    let proxies = cluster.proxies();
    let builder = without_pings(proxies.iter().map(Proxy::url));
    let redlock = build(
        builder
            .node_timeout(BRIEF)
            .connect_timeout(Duration::from_secs(4)),
    )
    .await;
    // They are idle after that.
    tokio::time::sleep(Duration::from_secs(1)).await;
    for proxy in &proxies {
        proxy.half_open();
        proxy.pass();
    }

    let lock = redlock.lock("k").wait(PATIENCE);
    drop(lock.acquire().await.unwrap());

    await_up(&redlock).await;
    for proxy in &proxies {
        assert_eq!(proxy.traffic().accepted, 2);
    }
}

#[tokio::test]
async fn a_server_that_closes_idle_connections_is_connected_to_again_and_votes() {
    let cluster = Cluster::start_with(3, &Server::builder().args(["--timeout", "1"]));
    let proxies = cluster.proxies();
    let redlock = build(without_pings(proxies.iter().map(Proxy::url))).await;
    for proxy in &proxies {
        proxy.await_connections(2).await;
    }
    await_up(&redlock).await;
    assert!(redlock.lock("k").acquire().await.is_ok());
}

#[tokio::test]
async fn pings_keep_connections_that_are_idle() {
    let cluster = Cluster::start_with(3, &Server::builder().args(["--timeout", "1"]));
    let proxies = cluster.proxies();
    let builder = unhurried(proxies.iter().map(Proxy::url)).ping_interval(BRIEF);
    let _redlock = build(builder).await;
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

#[tokio::test]
async fn servers_that_hang_are_missed_although_nobody_locks() {
    let cluster = Cluster::start(3);
    let builder = unhurried(cluster.urls()).ping_interval(BRIEF);
    let redlock = build(builder.connect_timeout(Duration::from_secs(1))).await;
    assert!(redlock.health().has_quorum());
    cluster.iter().for_each(Server::stop);
    await_state("three servers that hang", || is_down(&redlock)).await;
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
        let redlock = build(without_pings(cluster.urls())).await;
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
            while !redlock
                .nodes()
                .iter()
                .all(redlock_runtime::NodeStatus::is_up)
            {
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
        build(unhurried(proxies.iter().map(Proxy::url))),
        build(unhurried(cluster.urls()))
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

/// It lets 20 kB a second through.
#[tokio::test]
async fn requests_do_not_pile_up_before_a_server_that_is_slower_than_its_clients() {
    let cluster = Cluster::start(3);
    let proxies = cluster.proxies();
    let builder = unhurried(proxies.iter().map(Proxy::url)).node_timeout(BRIEF);
    let redlock = build(builder).await;
    proxies.iter().for_each(Proxy::clear);
    proxies[0].set(Mode::Narrow);
    for section in 0..8_000 {
        let lock = redlock.lock(format!("{section}")).wait(PATIENCE);
        let guard = lock.acquire().await.unwrap();
        drop(guard);
    }
    let came = |proxy: &Proxy| proxy.traffic().commands.len();
    let (slow, fast) = (came(&proxies[0]), came(&proxies[1]));
    assert!(
        slow < fast / 4,
        "{slow} requests to the slow one, {fast} to another"
    );
    proxies[0].pass();
    redlock.shutdown(NEVER).await.unwrap();
}
