//! Everything that the page on monitoring documents is written, and nothing else is: over real servers
//! that are killed, restarted, frozen and misused.

#[path = "../common/mod.rs"]
mod common;
mod heard;
mod page;
mod scenes;

use std::collections::BTreeSet;

use heard::Heard;
use redlock_runtime::{LockError, redis_lock};
use redlock_tests::Cluster;

#[tokio::test]
async fn everything_that_is_written_is_documented_and_everything_documented_is_written() {
    let heard = Heard::install();
    scenes::play_all(&heard).await;

    let mut documented = page::events();
    if cfg!(debug_assertions) {
        // In release builds only.
        documented.retain(|event| event.name != "redlock.start.embedded");
    }
    assert_eq!(heard.kinds(), documented);
    assert_eq!(heard.span_kinds(), page::spans());
    let known: BTreeSet<String> = page::outcomes();
    for (span, outcome) in heard.outcomes() {
        assert!(known.contains(&outcome), "{span}: {outcome}");
    }
}

#[redis_lock(key = "item:{item}", via = redlock, expire = 5s, renew, name = "healthy.work")]
async fn work(redlock: &redlock_runtime::Redlock, item: u64) -> Result<(), LockError> {
    tracing::info!(target: "redlock_runtime::of_the_body", "in the body");
    tokio::task::yield_now().await;
    Ok(())
}

#[tokio::test]
async fn a_healthy_day_writes_spans_alone_and_the_body_is_in_its_span() {
    let heard = Heard::install();
    let cluster = Cluster::start(3);
    let redlock = common::connect(&cluster).await;
    common::await_up(&redlock).await;
    let set = heard.of(&cluster);

    work(&redlock, 1).await.unwrap();
    let guard = redlock.lock("item:2").acquire().await.unwrap();
    let refused = redlock.lock("item:2").acquire().await;
    assert!(matches!(refused, Err(LockError::Contended(_))));
    let waiting = redlock.lock("item:2").wait(common::NEVER).acquire();
    assert!(futures_util::FutureExt::now_or_never(waiting).is_none());
    guard.release().await;

    assert_eq!(set.events(), [""; 0]);
    assert_eq!(
        set.spans(),
        [
            "redlock.acquire item:1 granted",
            "redlock.hold item:1 released",
            "redlock.acquire item:2 granted",
            "redlock.hold item:2 released",
            "redlock.acquire item:2 contended",
            "redlock.acquire item:2 cancelled",
        ]
    );
    assert_eq!(heard.parent_of_the_body(), "redlock.hold item:1");
    redlock.shutdown(common::NEVER).await.unwrap();
}
