//! A client that comes late to what the servers have said.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::common::{connection_ids, unhurried};
use redlock_tests::{Cluster, Server};
use tokio::runtime::Handle;

/// After this a node that does not answer counts as silent.
const LIMIT: Duration = Duration::from_secs(1);

/// As under heavy load, or when the process was stopped.
#[tokio::test]
async fn replies_that_its_client_is_late_to_read_do_not_cost_a_server_its_connection() {
    let cluster = Cluster::start(3);
    let builder = unhurried(cluster.urls()).connect_timeout(LIMIT);
    let redlock = builder.runtime(Handle::current()).build().await.unwrap();
    let connections: Vec<_> = cluster.iter().map(connection_ids).collect();

    cluster.iter().for_each(Server::stop);
    let asking = tokio::spawn(redlock.lock("late").wait(20 * LIMIT).acquire());
    let asked = Instant::now();
    while !asking.is_finished() && asked.elapsed() < LIMIT / 4 {
        // The engine sends what it was asked.
        tokio::task::yield_now().await;
    }
    cluster.iter().for_each(Server::cont);
    for server in cluster.iter() {
        while !server.exists("late") {
            assert!(asked.elapsed() < 10 * LIMIT);
        }
    }
    // This is the thread of the engine.
    thread::sleep((asked + 2 * LIMIT).saturating_duration_since(Instant::now()));

    asking.await.unwrap().unwrap().release().await;
    drop(redlock.lock("another").acquire().await.unwrap());
    let after: Vec<_> = cluster.iter().map(connection_ids).collect();
    assert_eq!(after, connections);
}
