//! Fair locks, on real servers.

use std::{
    sync::{Arc, Mutex},
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

/// By the clocks of all nodes that run.
async fn half_a_second(cluster: &Cluster) {
    let running = || cluster.iter().filter(|node| node.is_running());
    let began = running().map(Server::time).max().unwrap();
    let is_later = |node: &Server| node.time() > began + Duration::from_millis(500);
    await_state("a later time", || running().all(is_later)).await;
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
        // Who came first is told by the millisecond.
        half_a_second(cluster).await;
    }
    let leader = cluster.iter().find(|node| node.exists(QUEUE)).unwrap();
    meanwhile(leader).await;
    // Whoever has taken a place hears of changes a moment later.
    half_a_second(cluster).await;
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
