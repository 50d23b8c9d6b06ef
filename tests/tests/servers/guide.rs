//! What the pages of the guide say, beyond restarts, clocks and rights, which have files of their own.

use std::time::Duration;

use crate::common::{await_quarantine, await_up, found, unhurried, voting};
use redlock_protocol::{LockParams, default_guard_band, key_ttl};
use redlock_runtime::{Builder, ConfigProblem, LockError, ProblemKind, Release};
use redlock_tests::Cluster;

/// Quarantines that follow from this lease end in their test, those of `max_lease` do not.
fn fleet(urls: Vec<String>) -> Builder {
    let lease = Duration::from_millis(500);
    unhurried(urls)
        .assume_fresh(false)
        .expire(lease)
        .guard_band(lease)
}

#[test]
fn the_tables_of_times_are_those_of_the_protocol() {
    let page = include_str!("../../../redlock-runtime/src/guide/choosing.md");
    let row = |times: Vec<String>| format!(" | {} |\n", times.join(" | "));

    let ttl = |seconds| {
        let lease = Duration::from_secs(seconds);
        let ttl = key_ttl(lease, default_guard_band(lease));
        format!("{:.1} s", ttl.as_secs_f64())
    };
    let ttls = row([1, 5, 15, 30, 60].map(ttl).into());
    assert!(page.contains(&ttls), "{ttls}");

    let timeout = |seconds| {
        let params = LockParams::of(Duration::from_secs(seconds));
        let millis = params.round_timeout().as_millis();
        match millis % 1_000 {
            0 => format!("{} s", millis / 1_000),
            _ => format!("{millis} ms"),
        }
    };
    let timeouts = row([1, 5, 10, 20].map(timeout).into());
    assert!(page.contains(&timeouts), "{timeouts}");
}

/// The old nodes are a majority of the new list.
#[tokio::test]
async fn nodes_that_join_others_are_quarantined_and_hold_nothing_up() {
    let (old, new) = (Cluster::start(3), Cluster::start(2));
    found(&old, fleet).await;

    let urls = [old.urls(), new.urls()].concat();
    let redlock = fleet(urls).build().await.unwrap();

    await_quarantine(&redlock, 3).await;
    await_quarantine(&redlock, 4).await;
    assert!(redlock.health().has_quorum(), "{}", redlock.health());
    let guard = redlock.lock("k").acquire().await.unwrap();
    assert_eq!(old.held_on("k"), 3);
    drop(guard);
    await_up(&redlock).await;
}

#[tokio::test]
async fn max_lease_is_changed_by_deleting_what_nodes_record() {
    let cluster = Cluster::start(3);
    found(&cluster, fleet).await;
    let other = || fleet(cluster.urls()).max_lease(Duration::from_secs(60));

    let error = other().build().await.unwrap_err();
    let is_about_lease = |it: &ConfigProblem| it.kind == ProblemKind::OtherMaxLease;
    assert!(error.problems().iter().all(is_about_lease), "{error}");
    for node in &cluster {
        node.command(&["DEL", "__redlock:node:0"]);
    }

    let redlock = voting(other()).await;
    let guard = redlock.lock("k").acquire().await.unwrap();
    assert_eq!(guard.release().await, Release::Released);
}

/// As Redisson's locks are hashes.
#[tokio::test]
async fn a_key_of_another_type_is_somebody_elses_lock() {
    let cluster = Cluster::start(3);
    let redlock = crate::common::connect(&cluster).await;
    for node in &cluster {
        node.command(&["HSET", "k", "8743c9c0-0795-4907-87fd-6c719a6b4586:1", "1"]);
    }

    let error = redlock.lock("k").acquire().await.unwrap_err();

    assert!(matches!(error, LockError::Contended(_)), "{error}");
    assert!(error.to_string().contains("never expires"), "{error}");
    for node in &cluster {
        let kind: String = node.query(&["TYPE", "k"]);
        assert_eq!(kind, "hash");
    }
}
