//! Fair locks, on real servers.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use redlock_runtime::{LockError, Redlock, Release, redis_lock};
use redlock_tests::{Cluster, Server};
use tokio::task::JoinSet;

use crate::common::{NEVER, await_state, connect};

const KEY: &str = "seat";

const QUEUE: &str = "__redlock:queue:seat";

#[redis_lock(key = "seat", wait = NEVER, fair, via = redlock)]
async fn take_seat(
    redlock: &Redlock,
    number: u64,
    taken: &Mutex<Vec<u64>>,
) -> Result<(), LockError> {
    taken.lock().unwrap().push(number);
    Ok(())
}

/// How many processes have a place on one of the nodes, at the most.
fn places(cluster: &Cluster) -> usize {
    let running = cluster.iter().filter(|node| node.is_running());
    let places = running.map(|node| node.query(&["HLEN", QUEUE]));
    places.max().unwrap_or(0)
}

async fn clients(cluster: &Cluster, count: usize) -> Vec<Redlock> {
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(connect(cluster).await);
    }
    clients
}

/// Holds the lock until four clients have asked for it one after the other, does `meanwhile`, and
/// returns in which order they had it.
async fn order_of_four(cluster: &Cluster, meanwhile: impl AsyncFnOnce(&Server)) -> Vec<u64> {
    let clients = clients(cluster, 5).await;
    let held = clients[4].lock(KEY).acquire().await.unwrap();
    let taken = Arc::new(Mutex::new(Vec::new()));
    let mut waiting = JoinSet::new();
    for (number, client) in (0..4).zip(&clients) {
        let (client, taken) = (client.clone(), Arc::clone(&taken));
        waiting.spawn(async move { take_seat(&client, number, &taken).await });
        let count = number as usize + 1;
        await_state("a place in the queue", || places(cluster) == count).await;
        // Who came first is told by the millisecond, and another node has to rely on how long requests take.
        let asked = cluster.iter().map(Server::time).max().unwrap();
        let is_later = |node: &Server| node.time() > asked + Duration::from_millis(50);
        await_state("a later time", || cluster.iter().all(is_later)).await;
    }
    let leader = cluster.iter().find(|node| node.exists(QUEUE)).unwrap();
    meanwhile(leader).await;
    assert_eq!(held.release().await, Release::Released);
    while let Some(done) = waiting.join_next().await {
        done.unwrap().unwrap();
    }
    for node in cluster.iter().filter(|node| node.is_running()) {
        node.await_free(KEY).await;
    }
    let taken = taken.lock().unwrap();
    taken.clone()
}

#[tokio::test]
async fn four_clients_are_served_in_the_order_of_arrival() {
    let cluster = Cluster::start(3);
    let order = order_of_four(&cluster, async |_| {}).await;
    assert_eq!(order, [0, 1, 2, 3]);
}

#[tokio::test]
async fn the_order_survives_the_node_that_keeps_it() {
    let cluster = Cluster::start(3);
    let order = order_of_four(&cluster, async |leader| {
        leader.kill();
        await_state("a queue on another node", || places(&cluster) == 4).await;
    });
    assert_eq!(order.await, [0, 1, 2, 3]);
}

/// Each asks again and again, while one node after the other is killed.
#[tokio::test]
async fn nobody_starves_and_nothing_is_lost_while_a_node_is_down() {
    const ROUNDS: u64 = 10;
    let cluster = Cluster::start(3);
    for dead in [None, Some(0), Some(1), Some(2)] {
        if let Some(dead) = dead {
            cluster[dead].kill();
        }
        let counter = Arc::new(AtomicU64::new(0));
        let mut working = JoinSet::new();
        // With two nodes of three: those that are down are up again when clients connect.
        for client in clients(&cluster, 4).await {
            let counter = Arc::clone(&counter);
            working.spawn(async move {
                for _ in 0..ROUNDS {
                    let lock = client.lock(KEY).fair().wait(NEVER);
                    let section = lock.hold(async |_| {
                        // Anything but atomic.
                        let read = counter.load(Ordering::Relaxed);
                        tokio::task::yield_now().await;
                        counter.store(read + 1, Ordering::Relaxed);
                    });
                    section.await.unwrap();
                }
            });
        }
        while let Some(done) = working.join_next().await {
            done.unwrap();
        }
        assert_eq!(counter.load(Ordering::Relaxed), 4 * ROUNDS);
        if let Some(dead) = dead {
            cluster[dead].restart();
        }
    }
}

#[tokio::test]
async fn a_caller_that_is_cancelled_gives_up_its_place() {
    let cluster = Cluster::start(3);
    let clients = clients(&cluster, 2).await;
    let held = clients[0].lock(KEY).acquire().await.unwrap();
    let lock = clients[1].lock(KEY).fair().wait(NEVER);
    let waiting = tokio::spawn(async move { lock.acquire().await });
    await_state("a place in the queue", || places(&cluster) == 1).await;
    waiting.abort();
    await_state("an empty queue", || places(&cluster) == 0).await;
    assert_eq!(held.release().await, Release::Released);
    let next = clients[0].lock(KEY).fair().acquire().await.unwrap();
    assert_eq!(next.release().await, Release::Released);
}
