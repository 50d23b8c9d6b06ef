//! Readers on a node set for tests.

use redlock_runtime::{LockError, Redlock, redis_lock, testing::Outcome};
use tokio::time::sleep;

use crate::seconds;

#[redis_lock(key = "report", shared, wait = 10s)]
async fn read() -> Result<(), LockError> {
    sleep(seconds(2)).await;
    Ok(())
}

#[redis_lock(key = "report", wait = 10s)]
async fn write() -> Result<(), LockError> {
    sleep(seconds(1)).await;
    Ok(())
}

/// When each call got its lock, and let go, in seconds.
fn times(redlock: &redlock_runtime::testing::TestRedlock) -> Vec<(u64, u64)> {
    let history = redlock.history();
    let time = |at: Option<std::time::Duration>| at.unwrap().as_secs();
    let times = history.iter().map(|it| (time(it.granted), time(it.ended)));
    assert!(history.iter().all(|it| it.outcome == Outcome::Released));
    times.collect()
}

#[tokio::test(start_paused = true)]
async fn readers_run_together_and_a_writer_alone() {
    let redlock = Redlock::test();
    let _entered = redlock.enter();
    let writer = async {
        sleep(seconds(1)).await;
        write().await
    };
    let (one, other, written) = tokio::join!(read(), read(), writer);
    one.and(other).and(written).unwrap();
    redlock.assert_lock_count("report", 3);
    assert_eq!(times(&redlock), [(0, 2), (0, 2), (2, 3)]);
    redlock.assert_not_held("report");
}

#[tokio::test(start_paused = true)]
async fn all_readers_lose_a_key_that_is_deleted_and_none_joins_another_client() {
    let redlock = Redlock::test();
    let report = redlock.lock("report").shared();
    let one = report.clone().acquire().await.unwrap();
    let other = report.clone().acquire().await.unwrap();
    redlock.assert_held("report");
    redlock.delete_key("report");
    assert!(matches!(one.lost().await, LockError::Lost(_)));
    assert!(matches!(other.lost().await, LockError::Lost(_)));
    drop((one, other));

    let elsewhere = redlock.held_elsewhere("report");
    let refused = report.clone().acquire().await;
    assert!(matches!(refused, Err(LockError::Contended(_))));
    drop(elsewhere);
    drop(report.acquire().await.unwrap());
}
