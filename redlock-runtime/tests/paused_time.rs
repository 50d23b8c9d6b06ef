//! An engine on a runtime of the test's own, whose clock is paused: leases run in virtual time.

use std::time::Duration;

use redlock_runtime::{LockError, Redlock};
use tokio::time::{Instant, advance, sleep};

const LEASE: Duration = Duration::from_secs(5);

async fn redlock(name: &str) -> Redlock {
    Redlock::builder()
        .nodes([1, 2, 3].map(|node| format!("memory://{name}-{node}")))
        .runtime(tokio::runtime::Handle::current())
        .build()
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_body_is_cut_off_at_its_deadline() {
    let redlock = redlock("deadline").await;
    let start = Instant::now();
    let outcome = redlock
        .lock("k")
        .expire(LEASE)
        .hold(async |_| sleep(Duration::from_secs(3_600)).await)
        .await;
    assert!(matches!(outcome, Err(LockError::Expired(_))), "{outcome:?}");
    // Virtual time, in which timers count in milliseconds.
    let late = start.elapsed().checked_sub(LEASE);
    assert!(
        late.is_some_and(|late| late <= Duration::from_millis(2)),
        "{late:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn renewals_carry_a_lock_until_max_hold() {
    let redlock = redlock("max-hold").await;
    let start = Instant::now();
    let outcome = redlock
        .lock("k")
        .expire(LEASE)
        .renew()
        .max_hold(Duration::from_secs(60))
        .hold(async |_| sleep(Duration::from_secs(3_600)).await)
        .await;
    assert!(matches!(outcome, Err(LockError::Expired(_))), "{outcome:?}");
    assert_eq!(start.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn a_guard_tells_what_is_left() {
    let redlock = redlock("remaining").await;
    let guard = redlock.lock("k").expire(LEASE).acquire().await.unwrap();
    advance(Duration::from_secs(2)).await;
    assert!(guard.is_held());
    assert_eq!(guard.remaining().as_millis(), 3_000);
    assert_eq!(guard.extend().await.unwrap(), LEASE);
    advance(LEASE).await;
    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert!(matches!(guard.lost().await, LockError::Expired(_)));
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_guard_blocks_others_for_the_key_ttl_and_no_longer() {
    let redlock = redlock("forgotten").await;
    let start = Instant::now();
    std::mem::forget(redlock.lock("k").expire(LEASE).acquire().await.unwrap());
    let waited = redlock.lock("k").wait(Duration::from_secs(60));
    let _guard = waited.acquire().await.unwrap();
    // 5 s of lease, 52 ms of drift, 500 ms of guard band, and a poll.
    let took = start.elapsed();
    assert!(
        took > Duration::from_millis(5_552) && took < Duration::from_secs(6),
        "{took:?}"
    );
}
