//! What grows with the number of locks, callers, processes and nodes, and how fast: bytes, allocations and requests.

#![deny(warnings)]

use std::{alloc::System, ops::Range, time::Duration};

use futures_util::future::join_all;
use redlock_runtime::{Guard, Redlock};
use redlock_tests::Cluster;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::{sync::Mutex, task::JoinSet};

#[global_allocator]
static MEMORY: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The allocator counts for the whole process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

const LONG: Duration = Duration::from_secs(60);

fn start(nodes: usize) -> Cluster {
    let cluster = Cluster::start(nodes);
    for server in cluster.iter() {
        // The harness would keep each of its notices.
        server.command(&["CONFIG", "SET", "notify-keyspace-events", ""]);
    }
    cluster
}

async fn client(cluster: &Cluster) -> Redlock {
    let builder = Redlock::builder().nodes(cluster.urls()).assume_fresh(true);
    let builder = builder.expire(LONG).max_lease(LONG).require_quorum(true);
    builder.build().await.unwrap()
}

/// Scripts and reads of keys, on all servers.
fn requests(cluster: &Cluster) -> u64 {
    cluster.requests().into_iter().sum()
}

/// Without the notices that the harness waits for.
async fn await_free(cluster: &Cluster, key: &str) {
    for server in cluster.iter() {
        while server.exists(key) {
            tokio::task::yield_now().await;
        }
    }
}

fn live_bytes(region: &Region<'_, System>) -> isize {
    let change = region.change();
    change.bytes_allocated as isize - change.bytes_deallocated as isize
}

async fn hold(redlock: &Redlock, numbers: Range<usize>) -> Vec<Guard> {
    let mut guards = Vec::with_capacity(numbers.len());
    for number in numbers {
        let lock = redlock.lock(format!("held:{number}"));
        guards.push(lock.acquire().await.unwrap());
    }
    guards
}

#[tokio::test]
async fn a_held_lock_has_one_kibibyte_and_leaves_nothing() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let cluster = start(5);
    let redlock = client(&cluster).await;
    let region = Region::new(MEMORY);
    let mut guards = hold(&redlock, 0..1_000).await;
    let few = live_bytes(&region);
    guards.extend(hold(&redlock, 1_000..11_000).await);
    let each = (live_bytes(&region) - few) / 10_000;
    assert!(each <= 1_060, "{each} bytes for each lock");
    join_all(guards.into_iter().map(Guard::release)).await;
    // Tables and buffers keep the room that they once had, and the last replies may be on their way: up to a mebibyte.
    let region = Region::new(MEMORY);
    for start in (0..20_000).step_by(1_000) {
        let guards = hold(&redlock, start..start + 1_000).await;
        join_all(guards.into_iter().map(Guard::release)).await;
    }
    let left = live_bytes(&region) / 20_000;
    assert!(left <= 100, "{left} bytes are left of each lock");
}

#[tokio::test]
async fn tasks_that_wait_have_one_kibibyte_each_and_ask_for_all_together() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let mut live = Vec::new();
    for count in [1_000, 11_000] {
        let cluster = start(5);
        let [redlock, other] = [client(&cluster).await, client(&cluster).await];
        let holder = other.lock("key").acquire().await.unwrap();
        let (region, before) = (Region::new(MEMORY), requests(&cluster));
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            let lock = redlock.lock("key").wait(LONG);
            tasks.spawn(async move { lock.hold(async |_| ()).await });
        }
        tokio::task::yield_now().await;
        // The engine takes what it is asked in order.
        drop(redlock.lock("other").acquire().await);
        live.push(live_bytes(&region));
        let asked = requests(&cluster) - before;
        assert!(asked <= 60, "{count} tasks have asked {asked} times");
        drop(holder);
    }
    // The buffers of the connections have a size of their own, which depends on what is on its way.
    let each = (live[1] - live[0]) / 10_000;
    assert!(each <= 800, "{each} bytes for each task");
}

#[tokio::test]
async fn a_free_lock_costs_two_requests_to_each_node() {
    const CYCLES: u64 = 100;

    let _alone = ONE_AT_A_TIME.lock().await;
    for nodes in [1, 3, 5, 7, 9] {
        let cluster = start(nodes);
        let redlock = client(&cluster).await;
        let cycle = async |key: &str| {
            let guard = redlock.lock(key).acquire().await.unwrap();
            let _ = guard.release().await;
        };
        cycle("first").await;
        await_free(&cluster, "first").await;
        let (region, before) = (Region::new(MEMORY), requests(&cluster));
        for number in 0..CYCLES {
            cycle(&format!("key:{number}")).await;
        }
        let allocations = region.change().allocations as u64 / CYCLES;
        await_free(&cluster, &format!("key:{}", CYCLES - 1)).await;
        assert_eq!(requests(&cluster) - before, 2 * CYCLES * nodes as u64);
        let most = 24 + 6 * nodes as u64;
        assert!(allocations <= most, "{allocations} on {nodes} nodes");
    }
}
