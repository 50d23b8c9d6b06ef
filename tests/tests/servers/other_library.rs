//! A client of another library, rslock, on the same keys: beside a plain lock, readers and permits.

use std::time::Duration;

use redlock_runtime::{LockError, Redlock};
use redlock_tests::{Cluster, Worker};
use rslock::LockManager;

use crate::common::unhurried;

const TTL: Duration = Duration::from_secs(600);

/// With one attempt for each lock.
fn theirs(cluster: &Cluster) -> LockManager {
    let mut manager = LockManager::new(cluster.urls());
    manager.set_retry(0, Duration::from_millis(1));
    manager
}

async fn ours(cluster: &Cluster, is_mixed: bool) -> Redlock {
    let builder = unhurried(cluster.urls()).mixed_fleet(is_mixed);
    builder.build().await.unwrap()
}

#[tokio::test]
async fn clients_of_another_library_exclude_us_and_are_excluded() {
    const KEY: &str = "k";
    let cluster = Cluster::start(5);
    let theirs = theirs(&cluster);
    let redlock = ours(&cluster, false).await;
    let before = theirs.lock(KEY.as_bytes(), TTL).await.unwrap();
    let refused = redlock.lock(KEY).acquire().await;
    assert!(matches!(refused, Err(LockError::Contended(_))));
    theirs.unlock(&before).await;
    cluster.await_free(KEY).await;

    let guard = redlock.lock(KEY).acquire().await.unwrap();
    assert!(theirs.lock(KEY.as_bytes(), TTL).await.is_err());
    assert!(guard.is_held());
    guard.release().await;
    cluster.await_free(KEY).await;
    theirs.lock(KEY.as_bytes(), TTL).await.unwrap();
}

#[tokio::test]
async fn readers_exclude_another_library_until_the_last_is_gone_and_are_excluded() {
    const KEY: &str = "report";
    for is_mixed in [false, true] {
        let cluster = Cluster::start(3);
        let theirs = theirs(&cluster);
        let [one, other] = [
            ours(&cluster, is_mixed).await,
            ours(&cluster, is_mixed).await,
        ];
        let before = theirs.lock(KEY.as_bytes(), TTL).await.unwrap();
        let refused = one.lock(KEY).shared().acquire().await;
        assert!(matches!(refused, Err(LockError::Contended(_))));
        theirs.unlock(&before).await;
        cluster.await_free(KEY).await;

        let first = one.lock(KEY).shared().acquire().await.unwrap();
        let second = other.lock(KEY).shared().acquire().await.unwrap();
        assert!(theirs.lock(KEY.as_bytes(), TTL).await.is_err());
        // A release that comes late does no harm.
        theirs.unlock(&before).await;
        first.release().await;
        assert!(theirs.lock(KEY.as_bytes(), TTL).await.is_err());
        assert!(second.is_held() && cluster.held_on(KEY) >= 2);
        second.release().await;
        cluster.await_free(KEY).await;
        let after = theirs.lock(KEY.as_bytes(), TTL).await.unwrap();
        theirs.unlock(&after).await;
    }
}

#[tokio::test]
async fn another_library_on_the_key_of_a_permit_has_that_permit() {
    const SLOTS: [&str; 2] = ["exports#__redlock:0", "exports#__redlock:1"];
    for is_mixed in [false, true] {
        let cluster = Cluster::start(3);
        let theirs = theirs(&cluster);
        let ours = ours(&cluster, is_mixed).await;
        let exports = ours.lock("exports").permits(2);
        let taken = theirs.lock(SLOTS[0].as_bytes(), TTL).await.unwrap();
        let first = exports.clone().acquire().await.unwrap();
        let refused = exports.clone().acquire().await;
        assert!(matches!(refused, Err(LockError::Contended(_))));
        theirs.unlock(&taken).await;
        cluster.await_free(SLOTS[0]).await;

        let second = exports.acquire().await.unwrap();
        for slot in SLOTS {
            assert!(theirs.lock(slot.as_bytes(), TTL).await.is_err());
        }
        assert!(first.is_held() && second.is_held());
        // The lock without permits is another one.
        theirs.lock("exports".as_bytes(), TTL).await.unwrap();
    }
}

/// As a program that is run at more length by hand. No update is lost with or without `mixed_fleet(true)`, and with it
/// the other library gets a quarter of the sections or more.
#[test]
fn clients_of_another_library_under_load_exclude_us_and_get_their_share() {
    Worker::spawn(env!("CARGO_BIN_EXE_mixed_fleet"), &["2"], &[]).wait_success();
}
