//! What a lock does on servers that are well. Several node sets over the same servers stand for several processes.

use std::{
    sync::atomic::{AtomicU32, Ordering::SeqCst},
    time::Duration,
};

use futures_util::future::join_all;
use redlock_runtime::{Guard, LockError, Redlock, Release};
use redlock_tests::Cluster;

use crate::common::{await_state, connect};

/// Does not run out while a test runs.
const LONG: Duration = Duration::from_secs(60);

/// Is there to run out.
const BRIEF: Duration = Duration::from_millis(200);

#[tokio::test]
async fn a_lock_is_granted_to_one_until_its_release() {
    let (cluster, one, two) = processes().await;

    let guard = one.lock("k").expire(LONG).acquire().await.unwrap();
    assert!(guard.is_held());
    assert_eq!(guard.key(), "k");
    assert!(!guard.remaining().is_zero() && guard.remaining() <= LONG);
    await_state("keys on all nodes", || cluster.held_on("k") == 3).await;

    let error = two.lock("k").expire(LONG).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Contended(_)), "{error}");
    assert_eq!(error.key(), Some("k"));
    let retry_after = error.retry_after().expect("the holder's key expires");
    // The holder's lease, the drift of clocks, and the guard band.
    let key_ttl = LONG * 101 / 100 + Duration::from_millis(2) + LONG / 10;
    assert!(retry_after >= guard.remaining(), "{retry_after:?}");
    assert!(retry_after <= key_ttl, "{retry_after:?}");
    assert!(guard.is_held());

    assert_eq!(guard.release().await, Release::Released);
    cluster.await_free("k").await;
    let next = two.lock("k").expire(LONG).try_acquire().await.unwrap();
    assert!(next.is_held());
}

#[tokio::test]
async fn an_expired_holder_does_not_release_the_next_ones_lock() {
    let (cluster, one, two) = processes().await;
    let expired = expired(&one, "k").await;
    let next = two.lock("k").expire(LONG).wait(LONG).acquire().await;
    let next = next.unwrap();

    assert!(expired.extend().await.is_err());
    assert_eq!(expired.release().await, Release::AlreadyExpired);
    // Whatever `one` has sent for `k` is done when it hears of another key.
    let later = one.lock("later").expire(LONG).acquire().await.unwrap();
    assert_eq!(later.release().await, Release::Released);

    assert!(next.is_held());
    await_state("keys on all nodes", || cluster.held_on("k") == 3).await;
    let error = one.lock("k").acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Contended(_)), "{error}");
    assert_eq!(next.release().await, Release::Released);
}

#[tokio::test]
async fn any_text_is_a_key() {
    let (cluster, one, two) = processes().await;
    let long = "0123456789".repeat(1_000);
    for key in [
        "with spaces",
        " ",
        "schlüssel:🔑:鍵",
        r#"'single' "double" `back` \slash"#,
        "line\r\nbreak\0nul",
        "{tag}*?[a]%d%s$(x)",
        &long,
    ] {
        let guard = one.lock(key).expire(LONG).acquire().await.unwrap();
        await_state("keys on all nodes", || cluster.held_on(key) == 3).await;
        let error = two.lock(key).acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Contended(_)), "{key:?}: {error}");
        assert_eq!(error.key(), Some(key));
        assert_eq!(guard.release().await, Release::Released, "{key:?}");
        cluster.await_free(key).await;
    }
}

#[tokio::test]
async fn one_attempt_does_not_join_the_line() {
    let (_cluster, redlock, _) = processes().await;
    let guard = redlock.lock("k").expire(LONG).acquire().await.unwrap();

    for lock in [redlock.lock("k"), redlock.lock("k").wait(LONG)] {
        let error = lock.try_acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Contended(_)), "{error}");
        let retry_after = error.retry_after().expect("the holder's lease ends");
        assert!(!retry_after.is_zero() && retry_after <= LONG);
    }
    assert!(guard.is_held());
}

/// In two processes, which want more together than there are.
#[tokio::test]
async fn several_permits_of_one_lock_are_had_at_once() {
    let (cluster, one, two) = processes().await;
    let calls = (0..12).map(|call| {
        let redlock = [&one, &two][call % 2];
        let lock = redlock.lock("cores").permits(4).weight(1 + call as u32 % 4);
        lock.expire(LONG).wait(LONG).acquire()
    });
    let in_use = AtomicU32::new(0);
    let calls = calls.enumerate().map(async |(call, guard)| {
        let (guard, weight) = (guard.await.unwrap(), 1 + call as u32 % 4);
        assert!(in_use.fetch_add(weight, SeqCst) + weight <= 4);
        tokio::task::yield_now().await;
        in_use.fetch_sub(weight, SeqCst);
        assert_eq!(guard.release().await, Release::Released);
    });
    join_all(calls).await;
    for key in ["gate", "0", "1", "2", "3"] {
        cluster.await_free(&format!("cores#__redlock:{key}")).await;
    }
}

/// Of five processes, again and again.
#[tokio::test]
async fn of_processes_that_ask_at_the_same_instant_without_waiting_exactly_one_wins() {
    let cluster = Cluster::start(5);
    let fleet = join_all((0..5).map(|_| connect(&cluster))).await;
    for _ in 0..50 {
        let asked = fleet.iter().map(|redlock| redlock.lock("k").acquire());
        let (won, lost): (Vec<_>, Vec<_>) =
            join_all(asked).await.into_iter().partition(Result::is_ok);
        assert_eq!(won.len(), 1, "{lost:#?}");
        for guard in won {
            assert_eq!(guard.unwrap().release().await, Release::Released);
        }
    }
}

/// A reader of another process waits meanwhile.
#[tokio::test]
async fn a_writer_that_becomes_a_reader_lets_readers_in_and_no_writer() {
    let cluster = Cluster::start(3);
    let (one, two) = (connect(&cluster).await, connect(&cluster).await);
    let guard = one.lock("k").acquire().await.unwrap();
    let token = guard.fencing_token().unwrap();
    let reader = tokio::spawn(two.lock("k").shared().wait(LONG).acquire());
    guard.downgrade().await.unwrap();
    let reader = reader.await.unwrap().unwrap();
    let beside = reader.fencing_token().unwrap();
    assert!(beside > token);
    let writer = two.lock("k").wait(LONG).acquire();
    let error = two.lock("k").try_acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Contended(_)), "{error}");
    assert_eq!(guard.release().await, Release::Released);
    assert_eq!(reader.release().await, Release::Released);
    let writer = writer.await.unwrap();
    assert!(writer.fencing_token().unwrap() > beside);
}

// ---- the nodes

/// On which all nodes vote, however busy the machine is.
async fn processes() -> (Cluster, Redlock, Redlock) {
    let cluster = Cluster::start(3);
    let process = async || {
        let builder = Redlock::builder().nodes(cluster.urls()).assume_fresh(true);
        let builder = builder.connect_timeout(LONG).node_timeout(LONG);
        builder.build().await.unwrap()
    };
    let (one, two) = (process().await, process().await);
    (cluster, one, two)
}

// ---- the steps

/// Holds a lock for a brief lease. On a busy machine that may be over before it is noticed; then
/// another is taken.
async fn brief(redlock: &Redlock, key: &str) -> Guard {
    loop {
        let lock = redlock.lock(key).expire(BRIEF).wait(LONG);
        match lock.acquire().await {
            Ok(guard) => return guard,
            Err(LockError::Expired(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// A guard whose lease has run out, and which has not been dropped.
async fn expired(redlock: &Redlock, key: &str) -> Guard {
    let guard = brief(redlock, key).await;
    let error = guard.lost().await;
    assert!(matches!(error, LockError::Expired(_)), "{error}");
    guard
}
