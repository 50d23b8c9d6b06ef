//! Fencing tokens of real nodes, and the guards at real stores that make use of them.

mod postgres;
mod redis;
mod sqlite;
mod stores;
mod tokens;

use std::time::Duration;

use redlock_runtime::{Guard, Redlock};
use redlock_tests::Cluster;

/// A client of its own: a process, as far as the nodes can tell.
async fn client(nodes: &Cluster) -> Redlock {
    // The nodes have just been started, or restarted; how long they then keep from voting is a
    // matter of other tests.
    let nodes = Redlock::builder().nodes(nodes.urls()).assume_fresh(true);
    nodes.build().await.unwrap()
}

async fn acquire(client: &Redlock, key: &str) -> Guard {
    let lock = client.lock(key).expire(LONG).wait(PATIENCE);
    lock.acquire().await.unwrap()
}

fn token(guard: &Guard) -> u64 {
    guard.fencing_token().unwrap().get()
}

/// Ends the lease of whoever holds the lock.
fn delete_everywhere(nodes: &Cluster, key: &str) {
    for node in nodes {
        node.command(&["DEL", key]);
    }
}

/// A lease, or a foreign lock, that does not end during a test.
const LONG: Duration = Duration::from_secs(60);

/// Bounds the time of a failing run only.
const PATIENCE: Duration = redlock_tests::PATIENCE;
