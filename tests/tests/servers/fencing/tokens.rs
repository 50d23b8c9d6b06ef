//! The tokens themselves: unique, growing in real time, and hard to lose.

use redlock_protocol::stripe;
use redlock_runtime::Redlock;
use redlock_tests::{Cluster, Server};

use super::{acquire, client, token};
use crate::common::await_up;

const KEY: &str = "stock";

/// One minority after the other, until no node is left that has seen the first token itself.
#[tokio::test]
async fn grow_after_minorities_lost_their_memory() {
    let nodes = Cluster::start(5);
    let client = client(&nodes).await;
    let first = next_token(&client).await;
    // Ahead of the clocks, which would keep the tokens growing by themselves, and not by more than an hour, which
    // nobody believes of one that has lost its memory.
    nodes.await_free(KEY).await;
    let (stripe, counter) = (stripe(KEY).to_string(), first + 1_800_000_000);
    for node in &nodes {
        node.command(&["HSET", "__redlock:node:0", &stripe, &counter.to_string()]);
    }
    let mut before = next_token(&client).await;
    assert!(before > counter);
    for minority in [[0, 1], [2, 3], [4, 0]] {
        for node in minority {
            nodes[node].restart();
        }
        for node in minority {
            nodes[node].await_clients(1).await;
        }
        await_up(&client).await;
        let after = next_token(&client).await;
        assert!(after > before, "{after} after {before}");
        before = after;
    }
}

/// Counters then begin again from the clients' wall clocks.
#[tokio::test]
async fn grow_after_all_nodes_lost_their_memory() {
    let nodes = Cluster::start(5);
    let first = client(&nodes).await;
    let before = next_token(&first).await;
    // All are gone before the first one comes back: none can learn from another.
    nodes.iter().for_each(Server::kill);
    nodes.iter().for_each(Server::restart);
    assert!(next_token(&first).await > before);
    // And those of a client that has seen nothing of it.
    assert!(next_token(&client(&nodes).await).await > before);
}

async fn next_token(client: &Redlock) -> u64 {
    let guard = acquire(client, KEY).await;
    let token = token(&guard);
    guard.release().await;
    token
}
