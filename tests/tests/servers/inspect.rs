//! Who holds a lock and who waits for it, as operators are told.

use std::time::Duration;

use crate::common::{documented_rules, set_user, unhurried};
use redlock_runtime::{Builder, Guard, Holder, HolderKind, Inspection, LockError, Redlock, Report};
use redlock_tests::{Cluster, PATIENCE, Server};

const MINUTE: Duration = Duration::from_secs(60);

fn named(cluster: &Cluster, service: &str) -> Builder {
    unhurried(cluster.urls()).service(service)
}

async fn node_set(cluster: &Cluster, service: &str) -> Redlock {
    let redlock = named(cluster, service).build().await.unwrap();
    redlock.ready(PATIENCE).await.unwrap();
    redlock
}

/// Looks until it is so.
async fn inspect_until(
    redlock: &Redlock,
    key: &str,
    is_so: impl Fn(&Inspection) -> bool,
) -> Inspection {
    loop {
        let found = redlock.inspect(key).await;
        if is_so(&found) {
            return found;
        }
    }
}

#[tokio::test]
async fn those_that_wait_for_a_fair_lock_are_told_in_their_order() {
    let cluster = Cluster::start(3);
    let holder = node_set(&cluster, "holder").await;
    let guard = holder.lock("k").fair().acquire().await.unwrap();
    let mut waiting = Vec::new();
    for (count, service) in [(1, "first"), (2, "second")] {
        let redlock = node_set(&cluster, service).await;
        let lock = redlock.lock("k").fair().wait(PATIENCE);
        // Each lets go by itself: within 50 ms of each other they may have it in either order.
        waiting.push(tokio::spawn(async move {
            lock.acquire().await.unwrap().release().await
        }));
        inspect_until(&holder, "k", |found| found.waiters.len() == count).await;
    }
    let found = inspect_until(&holder, "k", |found| found.waiters.len() == 2).await;
    let services = found.waiters.iter();
    let services: Vec<_> = services
        .map(|it| &*it.process.as_ref().unwrap().service)
        .collect();
    assert_eq!(services, ["first", "second"], "{found}");
    assert!(found.waiters[0].waited >= found.waiters[1].waited);
    let [held] = &found.holders[..] else {
        panic!("{found}")
    };
    let process = held.process.as_ref().unwrap();
    assert_eq!(process.service, "holder");
    assert_eq!(Some(&held.owner), cluster[0].get("k").as_ref());
    assert!(process.address.is_some(), "{found}");
    guard.release().await;
    for waiting in waiting {
        waiting.await.unwrap();
    }
}

#[tokio::test]
async fn who_is_refused_hears_what_the_holder_says() {
    let cluster = Cluster::start(3);
    let holder = node_set(&cluster, "holder").await;
    let other = node_set(&cluster, "other").await;
    let value = |refused: Result<Guard, LockError>| {
        let refused = refused.unwrap_err();
        let value = refused.report().and_then(Report::value).map(str::to_owned);
        assert!(matches!(refused, LockError::Contended(_)), "{refused}");
        (value, refused.to_string())
    };
    let plain = |redlock: &Redlock| redlock.lock("k");
    let permit = |redlock: &Redlock| redlock.lock("k").permits(1);
    for lock in [plain, permit] {
        let held = lock(&holder).value("10.0.0.7:8080");
        let guard = held.clone().acquire().await.unwrap();
        let shows = |it: &Holder| it.has_majority && it.value.is_some();
        inspect_until(&other, "k", |found| found.holders.iter().any(shows)).await;
        let asking = lock(&other).value("10.0.0.8:8080");
        cluster.iter().for_each(Server::reset_counts);
        for wait in [Duration::ZERO, Duration::from_millis(50)] {
            let (heard, text) = value(asking.clone().wait(wait).acquire().await);
            assert_eq!(heard.as_deref(), Some("10.0.0.7:8080"));
            assert!(text.contains("10.0.0.7:8080"), "{text}");
        }
        // By two commands, and not by an inspection of all permits that there can be.
        for node in &cluster {
            let sent = node.command_counts();
            assert!(!sent.contains_key("client|list"), "{sent:?}");
            assert!(sent.get("get").is_none_or(|sent| *sent < 50), "{sent:?}");
        }
        // Who shows nothing asks for nothing, and who has the lock itself asks no node.
        assert_eq!(value(lock(&other).try_acquire().await).0, None);
        assert_eq!(value(held.try_acquire().await).0, None);
        guard.release().await;
    }
}

#[tokio::test]
async fn so_does_who_is_refused_by_memory() {
    let build = || Redlock::builder().nodes(["memory://said"]).build();
    let (holder, other) = (build().await.unwrap(), build().await.unwrap());
    let guard = holder.lock("k").value("a").acquire().await.unwrap();
    inspect_until(&other, "k", |found| found.holders[0].value.is_some()).await;
    let refused = other.lock("k").value("b").try_acquire().await.unwrap_err();
    let report = refused.report().unwrap();
    assert_eq!(report.value(), Some("a"));
    drop(guard);
}

#[tokio::test]
async fn what_others_have_written_is_told_as_theirs() {
    let cluster = Cluster::start(3);
    let redlock = node_set(&cluster, "orders").await;
    cluster.occupy("k", "token-of-another-library", MINUTE, 0..2);
    let found = redlock.inspect("k").await;
    let [holder] = &found.holders[..] else {
        panic!("{found}")
    };
    assert_eq!(holder.kind, HolderKind::Foreign);
    assert_eq!(holder.owner, "token-of-another-library");
    assert!(holder.has_majority && holder.process.is_none());
    let text = found.to_string();
    assert!(
        text.contains("a value that this library did not write"),
        "{text}"
    );
}

#[tokio::test]
async fn what_a_node_does_not_tell_is_said() {
    let cluster = Cluster::start(3);
    let rules = || documented_rules().filter(|rule| *rule != "+client|list");
    set_user(&cluster[0], "locker", &["on", ">secret"], rules());
    let other = format!("redis://locker:secret@127.0.0.1:{}", cluster[0].port());
    let urls = [other, cluster[1].url(), cluster[2].url()];
    let redlock = unhurried(urls).key_prefix("lock:").build().await.unwrap();
    redlock.ready(PATIENCE).await.unwrap();
    let guard = redlock.lock("k").acquire().await.unwrap();
    cluster[1].kill();

    let found = redlock.inspect("k").await;
    let hidden = found.nodes[0].hides_clients.as_ref().unwrap();
    assert!(hidden.text.contains("client|list"), "{hidden}");
    assert!(found.nodes[0].problem.is_none());
    assert!(
        found.nodes[1]
            .problem
            .as_ref()
            .unwrap()
            .text
            .contains("refused"),
        "{found}"
    );
    assert!(found.nodes[2].problem.is_none());
    // Its own process needs no list to be known.
    assert!(
        found.holders[0].process.as_ref().unwrap().is_this,
        "{found}"
    );
    assert!(
        found.to_string().contains("2 of 3 nodes replied"),
        "{found}"
    );
    drop(guard);
}

#[tokio::test]
async fn the_name_says_the_executable_by_default_and_costs_no_acquisition() {
    let cluster = Cluster::start(1);
    let redlock = unhurried(cluster.urls()).build().await.unwrap();
    redlock.ready(PATIENCE).await.unwrap();
    let named = cluster[0].count("client|setname");
    for _ in 0..3 {
        redlock.lock("k").acquire().await.unwrap().release().await;
    }
    assert_eq!(cluster[0].count("client|setname"), named);
    let clients: String = cluster[0].query(&["CLIENT", "LIST"]);
    let named = clients
        .split_whitespace()
        .find(|it| it.starts_with("name=redlock:"));
    let parts: Vec<_> = named
        .expect("the connection has a name")
        .split(':')
        .collect();
    assert!(parts[2].starts_with("servers-"), "{parts:?}");
    assert_eq!(parts[4], std::process::id().to_string());
}

#[tokio::test]
async fn the_holder_of_a_broken_lock_is_cut_off_and_the_next_one_has_a_larger_token() {
    let cluster = Cluster::start(3);
    let (holder, operator) = (
        node_set(&cluster, "holder").await,
        node_set(&cluster, "operator").await,
    );
    let (held, told) = tokio::sync::oneshot::channel();
    let lock = holder.lock("k").renew();
    let body = tokio::spawn(lock.hold(async move |lease| {
        held.send(lease.fencing_token().unwrap()).unwrap();
        std::future::pending::<()>().await;
    }));
    let token = told.await.unwrap();
    inspect_until(&operator, "k", |found| {
        let mut nodes = found.holders.iter().map(|it| it.nodes.len());
        nodes.next() == Some(3)
    })
    .await;
    // Its holder deletes the last key itself if it is the first to learn that the others are gone.
    let deleted = operator.break_lock("k").await.unwrap();
    assert!(deleted >= 2, "{deleted}");
    let error = body.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::Lost(_)), "{error}");
    let next = operator.lock("k").wait(PATIENCE).acquire().await.unwrap();
    assert!(next.fencing_token().unwrap() > token);

    // Too few servers tell what stands there.
    cluster.iter().take(2).for_each(Server::kill);
    let error = holder.break_lock("k").await.unwrap_err();
    let LockError::NoQuorum(report) = &error else {
        panic!("{error:?}");
    };
    assert_eq!(report.verdicts().len(), 2, "{error}");
    assert!(cluster[2].exists("k") || !next.is_held());
}
