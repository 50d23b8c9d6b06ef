//! Leases in virtual time: the clock is paused.

use std::time::Duration;

use redlock_runtime::{LockError, ProblemKind, Redlock};
use tokio::time::{Instant, advance, sleep};

use crate::{problem, redlock};

const LEASE: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn a_body_is_cut_off_at_its_deadline_which_renewals_put_off_until_max_hold() {
    let start = Instant::now();
    let redlock = redlock().await;
    assert_eq!(
        start.elapsed(),
        Duration::ZERO,
        "nodes in memory vote at once"
    );
    let lock = redlock.lock("k").expire(LEASE);
    let hold = 12 * LEASE;
    for (lock, lasts) in [(lock.clone(), LEASE), (lock.renew().max_hold(hold), hold)] {
        let start = Instant::now();
        let outcome = lock.hold(async |_| sleep(2 * hold).await).await;
        assert!(matches!(outcome, Err(LockError::Expired(_))), "{outcome:?}");
        // Virtual time, in which timers count in milliseconds.
        let late = start.elapsed().checked_sub(lasts);
        assert!(
            late.is_some_and(|late| late <= Duration::from_millis(2)),
            "{late:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_guard_tells_what_is_left() {
    let redlock = redlock().await;
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
async fn a_lease_is_extended_once_to_another_length() {
    let redlock = redlock().await;
    let long = 4 * LEASE;
    let guard = redlock.lock("k").expire(LEASE).acquire().await.unwrap();
    assert_eq!(guard.extend_to(long).await.unwrap(), long);
    advance(LEASE).await;
    assert_eq!(guard.extend().await.unwrap(), long - LEASE);
    for (length, option) in [
        (Duration::ZERO, "`expire` must be longer"),
        (
            Duration::from_secs(61),
            "`expire` is longer than `max_lease`",
        ),
        (Duration::from_millis(1), "shorter than the clock drift"),
    ] {
        let error = guard.extend_to(length).await.unwrap_err();
        assert_eq!(problem(&error).kind, ProblemKind::BadOption);
        assert!(error.to_string().contains(option), "{error}");
    }
    advance(long - LEASE).await;
    assert!(matches!(
        guard.extend_to(long).await,
        Err(LockError::Expired(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn a_lease_on_several_keys_is_extended_as_one() {
    let redlock = redlock().await;
    let all = redlock.lock_all(["a", "b"]).expire(LEASE);
    let guard = all.acquire().await.unwrap();
    assert_eq!(guard.extend_to(4 * LEASE).await.unwrap(), 4 * LEASE);
    advance(3 * LEASE).await;
    assert!(guard.is_held() && redlock.lock("b").try_acquire().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_guard_blocks_others_for_the_key_ttl_and_no_longer() {
    let redlock = redlock().await;
    let start = Instant::now();
    std::mem::forget(redlock.lock("k").expire(LEASE).acquire().await.unwrap());
    let waited = redlock.lock("k").wait(Duration::from_secs(60));
    let _guard = waited.acquire().await.unwrap();
    // 5 s of lease, 52 ms of drift, 500 ms of guard band, and a poll.
    let took = start.elapsed();
    assert!(
        took >= Duration::from_millis(5_552) && took < Duration::from_secs(6),
        "{took:?}"
    );
}

const PERIOD: Duration = Duration::from_secs(3);

/// Waits for the lock, and returns after how much time it could be had.
async fn kept_for(redlock: &Redlock, key: &str, start: Instant) -> Duration {
    let lock = redlock.lock(key).wait(10 * LEASE);
    drop(lock.acquire().await.unwrap());
    start.elapsed()
}

async fn assert_kept(redlock: &Redlock, key: &str, start: Instant) {
    let late = Duration::from_millis(50);
    match redlock.lock(key).try_acquire().await.unwrap_err() {
        LockError::Contended(contended) => {
            let after = contended.retry_after().unwrap();
            let left = PERIOD.checked_sub(start.elapsed()).unwrap();
            assert!(left <= after + late && after <= left + late, "{after:?}");
        }
        other => panic!("{key}: {other}"),
    }
    let kept = kept_for(redlock, key, start).await;
    assert!(kept >= PERIOD && kept <= PERIOD + late, "{kept:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_kept_for_its_period_whatever_ends_it() {
    let redlock = redlock().await;
    let lock = |key: &str| redlock.lock(key).expire(LEASE).at_least(PERIOD);

    let start = Instant::now();
    lock("brief").hold(async |_| ()).await.unwrap();
    assert_kept(&redlock, "brief", start).await;

    let start = Instant::now();
    let task = tokio::spawn(lock("panic").hold(async |_| panic!("on purpose")));
    assert!(task.await.unwrap_err().is_panic());
    assert_kept(&redlock, "panic", start).await;

    let start = Instant::now();
    let endless = lock("cancelled").hold(async |_| std::future::pending::<()>().await);
    let cancelled = tokio::time::timeout(Duration::from_millis(100), endless).await;
    assert!(cancelled.is_err());
    assert_kept(&redlock, "cancelled", start).await;

    let start = Instant::now();
    let guard = lock("guard").acquire().await.unwrap();
    assert_eq!(guard.release().await, redlock_runtime::Release::Released);
    assert_kept(&redlock, "guard", start).await;
}

#[tokio::test(start_paused = true)]
async fn a_section_on_one_of_several_keys_is_within_the_lock_on_all() {
    let redlock = redlock().await;
    let both = redlock.lock_all(["a", "b"]).expire(LEASE);
    let inner = |keys: &[&str]| redlock.lock_all(keys.iter().copied()).wait(LEASE);
    let outer = both.hold(async |lease| {
        let token = lease.fencing_token().unwrap();
        for keys in [&["b"][..], &["b", "a"], &["c", "b"]] {
            let error = inner(keys).acquire().await.unwrap_err();
            assert!(matches!(error, LockError::Nested(_)), "{error}");
        }
        for keys in [&["b"][..], &["b", "a"]] {
            let joined = inner(keys).reentrant().acquire().await.unwrap();
            assert_eq!(joined.fencing_token().unwrap(), token);
        }
        // One of them is not held, and the other cannot be had besides.
        let error = inner(&["c", "b"]).reentrant().acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Nested(_)), "{error}");
        drop(inner(&["c", "d"]).acquire().await.unwrap());
    });
    outer.await.unwrap();
}
