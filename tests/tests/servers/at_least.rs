//! Locks that are kept for a while although they have been released, on real servers.

use std::time::{Duration, Instant};

use redlock_runtime::{LockError, Redlock, Release, redis_lock};
use redlock_tests::Cluster;

use crate::common::{NEVER, connect};

const KEY: &str = "job";

const PERIOD: Duration = Duration::from_millis(1_200);

#[redis_lock(key = "job", at_least = 1.2s, via = redlock)]
async fn tick(redlock: &Redlock) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn of_replicas_that_tick_one_after_the_other_one_runs() {
    let cluster = Cluster::start(3);
    let (one, two) = (connect(&cluster).await, connect(&cluster).await);
    let start = Instant::now();
    // Not `tick`, which does not wait until the nodes have heard of its end.
    let first = one.lock(KEY).at_least(PERIOD).acquire().await.unwrap();
    assert_eq!(first.release().await, Release::Released);
    for replica in [&two, &one] {
        let error = tick(replica).await.unwrap_err();
        let LockError::Contended(contended) = &error else {
            panic!("{error}");
        };
        let after = contended.retry_after().unwrap();
        assert!(after <= PERIOD + PERIOD / 50, "{after:?}");
    }
    let next = two.lock(KEY).wait(NEVER).acquire().await.unwrap();
    assert!(start.elapsed() >= PERIOD);
    assert_eq!(next.release().await, Release::Released);
    cluster.await_free(KEY).await;
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
