//! What every shape needs: an installed Redlock of nodes in memory, and a look at the lock from
//! outside.

use std::cell::RefCell;
use std::collections::BTreeSet;

use redlock_runtime::{Installed, LockError, Redlock};
use redlock_tests::PATIENCE;
use tokio::sync::OnceCell;

thread_local! {
    /// The keys that this test has seen held.
    static SEEN: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
}

/// Installs one Redlock for all tests. Never dropped, so that no test loses it.
pub(super) async fn install() -> Redlock {
    static INSTALLED: OnceCell<Installed> = OnceCell::const_new();
    let installed = INSTALLED
        .get_or_init(|| async {
            Redlock::builder()
                .nodes(["memory://shapes"])
                .install()
                .await
                .expect("nodes in memory")
        })
        .await;
    Redlock::clone(installed)
}

/// For use in a body: nobody else can have the lock.
pub(super) async fn assert_held(key: &str) {
    assert!(is_held(key).await, "{key} is not held");
    SEEN.with_borrow_mut(|seen| seen.insert(key.to_owned()));
}

/// The body has got that far.
pub(super) fn was_seen_held(key: &str) -> bool {
    SEEN.with_borrow(|seen| seen.contains(key))
}

/// For use after the body: the lock is free, or will be as soon as the release has arrived.
pub(super) async fn assert_released(key: &str) {
    let other = install().await.lock(key).wait(PATIENCE).acquire().await;
    assert!(other.is_ok(), "{key} is still held: {other:?}");
}

/// For use at the end of a test, in which every [`assert_held`] was on the test's own thread.
pub(super) async fn assert_all_released() {
    let seen = SEEN.take();
    assert!(!seen.is_empty(), "no key was seen held");
    for key in seen {
        assert_released(&key).await;
    }
}

pub(super) async fn is_held(key: &str) -> bool {
    let attempt = install().await.lock(key).try_acquire();
    // In a task of its own, because that of the body would be refused without being asked.
    let other = tokio::spawn(attempt).await;
    matches!(other, Ok(Err(LockError::Contended(_))))
}
