//! A client that comes late to what the servers have said.

use std::{
    pin::pin,
    sync::{Arc, Barrier},
    task::{Context, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use crate::common::{connection_ids, unhurried};
use redlock_tests::{Cluster, Server};

/// After this a node that does not answer counts as silent.
const LIMIT: Duration = Duration::from_secs(1);

struct Blocks(Instant, Arc<Barrier>);

impl Wake for Blocks {
    fn wake(self: Arc<Self>) {
        self.1.wait();
        thread::sleep(self.0.saturating_duration_since(Instant::now()));
    }
}

/// As under heavy load, or when the process was stopped.
#[tokio::test]
async fn replies_that_its_client_is_late_to_read_do_not_cost_a_server_its_connection() {
    let cluster = Cluster::start(3);
    let builder = unhurried(cluster.urls()).connect_timeout(LIMIT);
    let redlock = builder.build().await.unwrap();
    let connections: Vec<_> = cluster.iter().map(connection_ids).collect();
    let (until, blocked) = (Instant::now() + 3 * LIMIT, Arc::new(Barrier::new(2)));
    cluster.iter().for_each(Server::stop);
    let mut first = pin!(redlock.lock("first").acquire());
    // The thread that has read the replies wakes this caller.
    let waker = Waker::from(Arc::new(Blocks(until, Arc::clone(&blocked))));
    assert!(
        first
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    cluster.iter().for_each(Server::cont);
    blocked.wait();

    cluster.iter().for_each(Server::stop);
    let asking = tokio::spawn(redlock.lock("late").wait(20 * LIMIT).acquire());
    let asked = Instant::now();
    tokio::task::yield_now().await;
    cluster.iter().for_each(Server::cont);
    for server in cluster.iter() {
        while !server.exists("late") {
            assert!(asked.elapsed() < 10 * LIMIT);
        }
    }
    // Nor does this thread read, until that one is late.
    thread::sleep(until.saturating_duration_since(Instant::now()));

    drop(first.await.unwrap());
    asking.await.unwrap().unwrap().release().await;
    drop(redlock.lock("another").acquire().await.unwrap());
    let after: Vec<_> = cluster.iter().map(connection_ids).collect();
    assert_eq!(after, connections);
}
