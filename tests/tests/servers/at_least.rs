//! Locks that are kept for a while although they have been released, on real servers.

use std::time::{Duration, Instant};

use redlock_runtime::{LockError, Redlock, redis_lock};
use redlock_tests::Cluster;

use crate::common::{NEVER, connect};

const KEY: &str = "job";

const PERIOD: Duration = Duration::from_millis(1_200);

#[redis_lock(key = "job", at_least = 1.2s, via = redlock)]
async fn tick(redlock: &Redlock) -> Result<(), LockError> {
    Ok(())
}

/// Its engine has nothing left to do.
#[tokio::test]
async fn a_lock_is_kept_when_its_node_set_is_no_more() {
    let cluster = Cluster::start(3);
    let (one, two) = (connect(&cluster).await, connect(&cluster).await);
    let start = Instant::now();
    tick(&one).await.unwrap();
    one.shutdown(NEVER).await.unwrap();
    drop(one);
    assert!(cluster.held_on(KEY) >= 2);
    let _next = two.lock(KEY).wait(NEVER).acquire().await.unwrap();
    assert!(start.elapsed() >= PERIOD);
}
