//! Nodes lose their memory under locks that are held.

use std::time::Duration;

use crate::common::{
    asks_for_its_record, await_quarantine, await_up, extend_by, found, load::Load, unhurried,
};
use redlock_runtime::{Builder, Redlock, Release};
use redlock_tests::{Cluster, PATIENCE, Proxy, Server, Traffic};
use tokio::task::JoinSet;

const KEY: &str = "k";

/// The lease of locks that name none, and so what a first start waits for.
const USUAL: Duration = Duration::from_secs(1);

/// The lease of the lock that nodes forget.
const LONG: Duration = Duration::from_secs(4);

/// Quarantines that follow from the longest possible lease outlast every test.
fn fleet(urls: Vec<String>) -> Builder {
    unhurried(urls)
        .assume_fresh(false)
        .expire(USUAL)
        .guard_band(USUAL / 10)
}

// ---- one node, beside a client that has just started

#[tokio::test]
async fn a_flush_of_one_node_never_lets_a_second_holder_in() {
    lose_each_node_beside_each_holder(|node| drop(node.command(&["FLUSHALL"]))).await;
}

#[tokio::test]
async fn an_empty_restart_of_one_node_never_lets_a_second_holder_in() {
    lose_each_node_beside_each_holder(Server::restart).await;
}

/// Each node is lost once beside each holder that cannot reach one of them.
async fn lose_each_node_beside_each_holder(lose: fn(&Server)) {
    let mut combinations = JoinSet::new();
    for lost in 0..3 {
        for unreached in 0..3 {
            combinations.spawn(lose_one_node(lost, unreached, lose));
        }
    }
    assert_eq!(combinations.join_all().await.len(), 9);
}

/// The holder's majority is all nodes but `unreached`. Once it holds it reaches none of them, so
/// only its deadline ends its lease.
async fn lose_one_node(lost: usize, unreached: usize, lose: fn(&Server)) {
    let cluster = Cluster::start(3);
    found(&cluster, fleet).await;
    let proxies = cluster.proxies();
    proxies[unreached].refuse();
    let holder = fleet(urls(&proxies)).build().await.unwrap();
    let lock = holder.lock(KEY).expire(LONG).wait(PATIENCE);
    let guard = lock.acquire().await.unwrap();
    assert_eq!(cluster.held_on(KEY), 2);
    proxies.iter().for_each(Proxy::black_hole);

    lose(&cluster[lost]);
    let (rival, _network) = meet_first(&cluster, lost).await;

    let next = rival.lock(KEY).wait(PATIENCE).acquire().await;
    let is_held = guard.is_held();
    assert!(
        !is_held,
        "two hold it: node {lost} lost, node {unreached} unreached"
    );
    drop(next.unwrap());
    assert_eq!(guard.release().await, Release::AlreadyExpired);
}

/// A client that has just started, and asks `first` what it remembers before all others. The
/// network between it and the nodes goes with the proxies.
async fn meet_first(cluster: &Cluster, first: usize) -> (Redlock, Vec<Proxy>) {
    let proxies = cluster.proxies();
    for (node, proxy) in proxies.iter().enumerate() {
        if node != first {
            proxy.hold_requests();
        }
    }
    let build = tokio::spawn(fleet(urls(&proxies)).build());
    let is_probed = |traffic: &Traffic| {
        let mut commands = traffic.commands.iter();
        commands.any(|command| asks_for_its_record(&command.words))
    };
    proxies[first].await_until("a probe", is_probed).await;
    proxies.iter().for_each(Proxy::pass);
    (build.await.unwrap().unwrap(), proxies)
}

fn urls(proxies: &[Proxy]) -> Vec<String> {
    proxies.iter().map(Proxy::url).collect()
}

// ---- one node after the other

/// No node has kept the key of the renewed lock in the end: it lives because nodes that vote again
/// are given it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_refuses_no_lock_and_ends_no_renewed_one() {
    let cluster = Cluster::start(3);
    found(&cluster, fleet).await;
    let proxies = cluster.proxies();
    let holder = fleet(urls(&proxies)).build().await.unwrap();
    let lock = holder.lock(KEY).expire(LONG).renew().wait(PATIENCE);
    let guard = lock.acquire().await.unwrap();
    let mut clients = vec![holder];
    for _ in 0..2 {
        clients.push(fleet(cluster.urls()).build().await.unwrap());
    }
    let load = Load::start(&clients[1..], PATIENCE / 3);

    for node in 0..3 {
        cluster[node].restart();
        assert!(!cluster[node].exists(KEY));
        for client in &clients {
            await_quarantine(client, node).await;
        }
        for client in &clients {
            await_up(client).await;
        }
        cluster[node].await_event(KEY, "set", 1).await;
        load.goes_on().await;
        extend_by(&guard, node, &proxies).await;
    }

    let refused = load.end().await;
    assert!(refused.is_empty(), "{refused:#?}");
    assert_eq!(guard.release().await, Release::Released);
}
