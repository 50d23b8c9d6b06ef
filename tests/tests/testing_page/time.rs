use std::time::Duration;

use redlock_runtime::{LockError, Redlock, redis_lock};
use tokio::time::{Instant, sleep};

#[redis_lock(key = "report:{month}", expire = 30s, renew, max_hold = 10m)]
async fn report(month: u32, work: Duration) -> Result<(), LockError> {
    sleep(work).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_report_that_hangs_is_cut_off() {
    let redlock = Redlock::test();
    let _entered = redlock.enter();
    let start = Instant::now();

    report(11, Duration::from_secs(300)).await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 300);

    let error = report(12, Duration::MAX).await.unwrap_err();
    assert!(matches!(error, LockError::Expired(_)), "{error}");
    assert_eq!(start.elapsed().as_secs(), 300 + 600);
}
