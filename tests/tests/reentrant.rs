//! Sections within sections, over real servers. What does not need them is in
//! `redlock-runtime/tests/locks/nested.rs`.

mod common;

use std::{panic::AssertUnwindSafe, time::Duration};

use common::{await_sent, await_state, connect_by, unhurried};
use futures_util::FutureExt;
use redlock_runtime::{LockError, Release};
use redlock_tests::{Cluster, Proxy};

const KEY: &str = "nested";

#[tokio::test]
async fn a_section_that_joins_asks_no_node() {
    let cluster = Cluster::start(3);
    let proxies = cluster.proxies();
    let redlock = connect_by(&proxies).await;

    let outer = redlock.lock(KEY).hold(async |outer| {
        await_sent(&redlock, &cluster).await;
        let before = scripts(&proxies);
        for _ in 0..10 {
            let inner = redlock.lock(KEY).reentrant();
            let inner = inner.hold(async |inner| inner.fencing_token().unwrap());
            assert_eq!(inner.await.unwrap(), outer.fencing_token().unwrap());
            let joined = redlock.lock(KEY).reentrant().acquire().await.unwrap();
            assert_eq!(joined.release().await, Release::Joined);
        }
        assert_eq!(scripts(&proxies), before);
        assert_eq!(cluster.held_on(KEY), 3);
    });
    outer.await.unwrap();

    cluster.await_free(KEY).await;
}

#[tokio::test]
async fn without_a_majority_a_lease_is_joined_while_it_is_long_enough() {
    const LEASE: Duration = Duration::from_secs(10);
    let cluster = Cluster::start(3);
    let proxies = cluster.proxies();
    let redlock = connect_by(&proxies).await;

    let outer = redlock.lock(KEY).expire(LEASE).hold(async |outer| {
        proxies.iter().take(2).for_each(Proxy::refuse);
        let inner = |expire| redlock.lock(KEY).reentrant().expire(expire).acquire();
        assert!(inner(LEASE / 4).await.is_ok());
        await_state("a tenth of the lease gone", || {
            outer.remaining() < LEASE * 9 / 10
        })
        .await;
        let refused = inner(LEASE).await;
        assert!(
            matches!(refused, Err(LockError::NoQuorum(_))),
            "{refused:?}"
        );
        assert!(outer.is_held() && inner(LEASE / 4).await.is_ok());
    });
    outer.await.unwrap();
}

/// Every way in which a section that joined may end leaves the lock to the outer one.
#[tokio::test]
async fn no_way_out_of_a_section_that_joined_releases_the_lock() {
    let cluster = Cluster::start(3);
    let redlock = unhurried(cluster.urls()).build().await.unwrap();

    let outer = redlock.lock(KEY).hold(async |_| {
        let lock = || redlock.lock(KEY).reentrant();
        lock().hold(async |_| {}).await.unwrap();
        drop(lock().acquire().await.unwrap());
        let cancelled = lock().hold(async |_| std::future::pending::<()>().await);
        tokio::select! {
            ended = cancelled => panic!("{ended:?}"),
            () = tokio::task::yield_now() => {}
        }
        let panics = lock().hold(async |_| panic!("on purpose"));
        let panicked: Result<Result<(), _>, _> = AssertUnwindSafe(panics).catch_unwind().await;
        assert!(panicked.is_err());
        await_sent(&redlock, &cluster).await;
        assert_eq!(cluster.held_on(KEY), 3);
    });
    outer.await.unwrap();

    cluster.await_free(KEY).await;
}

/// Those that name the key, on the way to all nodes.
fn scripts(proxies: &[Proxy]) -> usize {
    let of_proxy = |proxy: &Proxy| {
        let commands = proxy.traffic().commands;
        let scripts = commands
            .iter()
            .filter(|command| command.name() == "EVALSHA");
        scripts
            .filter(|script| script.words.iter().any(|word| word == KEY))
            .count()
    };
    proxies.iter().map(of_proxy).sum()
}
