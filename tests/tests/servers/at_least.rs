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

const PERMITS: usize = 3;

#[redis_lock(key = "mails", permits = 3, at_least = 1.2s, wait = wait, lease = lease, via = redlock)]
async fn send(redlock: &Redlock, wait: Duration) -> Result<(Instant, Duration), LockError> {
    Ok((Instant::now(), lease.remaining()))
}

/// In three processes, whose calls take no time.
#[tokio::test]
async fn no_more_calls_start_within_a_period_than_there_are_permits() {
    let cluster = Cluster::start(3);
    let mut fleet = Vec::new();
    for _ in 0..3 {
        fleet.push(connect(&cluster).await);
    }
    let expire = NEVER;
    let calls = (0..4 * PERMITS).map(|call| send(&fleet[call % fleet.len()], NEVER));
    let calls = futures_util::future::join_all(calls).await;
    let mut calls: Vec<_> = calls.into_iter().map(Result::unwrap).collect();
    calls.sort_unstable();
    for several in calls.windows(PERMITS + 1) {
        // Two of these had the same permit. The first of them got it after its lease had begun.
        let began = |&(start, left): &(Instant, Duration)| start - (expire - left);
        let first = several.iter().map(began).min().unwrap();
        let (last, _) = several[PERMITS];
        assert!(last - first >= PERIOD, "{several:?}");
    }
    let refused = send(&fleet[0], Duration::ZERO).await.unwrap_err();
    let retry_after = refused.retry_after();
    assert!(
        retry_after.is_some_and(|after| after <= 2 * PERIOD),
        "{refused}"
    );
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
