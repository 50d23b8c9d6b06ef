//! What several files of tests share.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each file of tests is a crate of its own and uses a part of this"
)]

pub mod certificates;
pub mod load;

use std::time::{Duration, Instant};

use redlock_runtime::{Builder, Guard, NodeState, Redlock};
use redlock_tests::{Cluster, PATIENCE, Proxy, Server, redis};

/// Longer than any test. What has to wait for it fails its test instead of passing late.
pub const NEVER: Duration = Duration::from_secs(3_600);

/// A node set in which no time runs out: no lease, no key and no connection is given up before its
/// test is, and a round waits for silent nodes for as long as any round may, which is a second. Tests
/// that are about one of these times set it themselves.
pub fn unhurried<I>(urls: I) -> Builder
where
    I: IntoIterator,
    I::Item: Into<String>,
{
    Redlock::builder()
        .nodes(urls)
        .assume_fresh(true)
        .max_lease(NEVER)
        .expire(NEVER)
        .node_timeout(NEVER)
        .connect_timeout(PATIENCE * 2)
}

/// Connects, without hurry, to all nodes of `cluster`.
pub async fn connect(cluster: &Cluster) -> Redlock {
    unhurried(cluster.urls()).build().await.unwrap()
}

/// Connects, without hurry, to all nodes by way of `proxies`, and begins their counts anew.
pub async fn connect_by(proxies: &[Proxy]) -> Redlock {
    let urls = proxies.iter().map(Proxy::url);
    let redlock = unhurried(urls).build().await.unwrap();
    proxies.iter().for_each(Proxy::clear);
    redlock
}

/// Returns when every node has done whatever `redlock` has sent it before the call. All nodes must
/// be connected.
///
/// Requests to a node keep their order, so it is enough to see that a later lock has come and gone.
/// A busy set is asked for a majority first, and the others get a lock that is held for a while.
pub async fn await_sent(redlock: &Redlock, cluster: &Cluster) {
    const FENCE: &str = "fence";
    let seen = |node: &Server| {
        let events = node.events(FENCE);
        events.iter().filter(|event| *event == "del").count()
    };
    let before: Vec<usize> = cluster.iter().map(seen).collect();
    let guard = redlock.lock(FENCE).acquire().await.unwrap();
    for (node, before) in cluster.iter().zip(&before) {
        node.await_event(FENCE, "set", before + 1).await;
    }
    guard.release().await;
    for (node, before) in cluster.iter().zip(before) {
        node.await_event(FENCE, "del", before + 1).await;
    }
}

/// Waits twice as long as everything else in these tests: Sentinels on a busy machine do nothing for half a
/// minute. For states that nobody announces; where there is an event, await that. A look a millisecond, because
/// one after the other would take a processor from the servers.
#[track_caller]
pub fn await_state(what: &str, mut is_reached: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let deadline = Instant::now() + 2 * PATIENCE;
    async move {
        while !is_reached() {
            assert!(Instant::now() < deadline, "waited in vain for: {what}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// A node set whose nodes all vote.
pub async fn voting(builder: Builder) -> Redlock {
    let redlock = builder.build().await.unwrap();
    await_up(&redlock).await;
    redlock
}

/// Waits until every node of `redlock` can vote.
pub async fn await_up(redlock: &Redlock) {
    await_state("all nodes up", || {
        redlock
            .nodes()
            .iter()
            .all(redlock_runtime::NodeStatus::is_up)
    })
    .await;
}

/// Waits until `redlock` knows that `node` is quarantined.
pub async fn await_quarantine(redlock: &Redlock, node: usize) {
    await_state("a quarantine", || is_quarantined(redlock, node)).await;
}

pub fn is_quarantined(redlock: &Redlock, node: usize) -> bool {
    matches!(redlock.nodes()[node].state(), NodeState::Quarantined { .. })
}

/// Acquires `key`, and waits until every node has it.
pub async fn acquire_on_all(redlock: &Redlock, cluster: &Cluster, key: &str) -> Guard {
    let sets = |node: &Server| {
        let events = node.events(key);
        events.iter().filter(|event| *event == "set").count()
    };
    let before: Vec<usize> = cluster.iter().map(sets).collect();
    let guard = redlock.lock(key).acquire().await.unwrap();
    for (node, before) in cluster.iter().zip(before) {
        node.await_event(key, "set", before + 1).await;
    }
    guard
}

/// Lets all nodes vote, and grants a lock on them with the usual lease of `builder`: a node that
/// loses its memory then stays out for as long as that lock could be held. Nobody is left who would
/// let it vote sooner.
pub async fn found(cluster: &Cluster, builder: fn(Vec<String>) -> Builder) {
    let founder = builder(cluster.urls()).assume_fresh(true);
    let founder = voting(founder).await;
    drop(acquire_on_all(&founder, cluster, "founded").await);
    cluster.await_free("founded").await;
    drop(founder);
    for node in cluster {
        node.settle();
        node.await_clients(0).await;
    }
}

/// Waits until the holder has read its key on every node.
pub async fn await_watched(cluster: &Cluster) {
    for node in cluster {
        let watched = || node.info("stats")["tracking_total_keys"] != "0";
        await_state("a watched key", watched).await;
    }
}

/// Only the question for a lock has so many words: more with a ticket.
pub fn asks_for_a_lock(words: &[String]) -> bool {
    // Without a ticket it has as many words as a request to put a key back, which wants no tokens.
    let is_question = words.len() == 18 || words.len() == 11 && !words[9].is_empty();
    words[0].starts_with("EVAL") && is_question
}

pub fn is_release(words: &[String]) -> bool {
    let script = concat!(
        include_str!("../../../redlock-runtime/src/script/leave.lua"),
        include_str!("../../../redlock-runtime/src/script/release.lua")
    );
    words[0].starts_with("EVAL") && words[1] == redis::Script::new(script).get_hash()
}

/// Waits until a release has come to a proxy.
pub async fn await_release(proxy: &Proxy) {
    let has_come = || {
        let commands = proxy.traffic().commands;
        commands.iter().any(|command| is_release(&command.words))
    };
    await_state("a release", has_come).await;
}

/// Only the question what a node remembers is a script of no argument but its one key.
pub fn asks_for_its_record(words: &[String]) -> bool {
    words[0].starts_with("EVAL") && words.len() == 4
}

/// The connections of clients to a node.
pub fn connection_ids(node: &Server) -> Vec<String> {
    let clients = node.clients();
    clients.iter().map(|client| client["id"].clone()).collect()
}

/// Extends the lock by a majority that needs this node of three: when this returns, the holder knows
/// that the node has its key.
pub async fn extend_by(guard: &Guard, node: usize, proxies: &[Proxy]) {
    let other = &proxies[(node + 1) % 3];
    other.hold_replies();
    while let Err(error) = guard.extend().await {
        // On a busy machine a round may be too short for the replies.
        assert!(guard.is_held(), "{error}");
    }
    other.pass();
}

/// Extends the lock until every node has its key: it is put back by the first extension that is won
/// when the holder knows that it is gone, and of a node that only has to reply that may be the next.
pub async fn extend_until_on_all(guard: &Guard, cluster: &Cluster, key: &str) {
    let extensions = async {
        while cluster.held_on(key) < cluster.len() {
            if let Err(error) = guard.extend().await {
                assert!(guard.is_held(), "{error}");
            }
        }
    };
    let extended = tokio::time::timeout(PATIENCE, extensions).await;
    extended.expect("the key is put back");
}

/// The rules that the page on servers gives to a user.
pub fn documented_rules() -> impl Iterator<Item = &'static str> {
    let page = include_str!("../../../redlock-runtime/src/guide/servers.md");
    let blocks = page.split("```text\n").skip(1);
    let mut blocks = blocks.filter_map(|block| block.split("```").next());
    let rules = blocks.find(|block| block.starts_with('~'));
    rules.expect("the page lists them").split_whitespace()
}

/// Makes a user of a node, or changes one: rules of its own, and those of a list.
pub fn set_user(
    node: &Server,
    name: &str,
    own: &[&str],
    rules: impl IntoIterator<Item = &'static str>,
) {
    let mut command = vec!["ACL", "SETUSER", name];
    command.extend(own);
    for rule in rules {
        command.push(rule);
    }
    node.command(&command);
}
