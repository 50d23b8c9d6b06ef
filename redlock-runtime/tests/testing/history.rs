//! What a node set remembers of its locks, and how its assertions fail.

use redlock_runtime::{LockError, Redlock, redis_lock, testing::Outcome};
use tokio::time::sleep;

use crate::{message_of, seconds};

#[redis_lock(key = "account:{id}", wait = 10s)]
async fn charge(id: u64, time: u64) -> Result<(), LockError> {
    sleep(seconds(time)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn keys_come_in_the_order_in_which_they_were_locked() {
    let redlock = Redlock::builder().key_prefix("app:").test(3).unwrap();
    let _entered = redlock.enter();
    let second = async {
        sleep(seconds(1)).await;
        charge(1, 1).await
    };
    let (first, second, third) = tokio::join!(charge(2, 3), second, charge(2, 1));
    first.and(second).and(third).unwrap();
    redlock.assert_locked(["account:2", "account:1", "account:2"]);
    redlock.assert_lock_count("account:2", 2);
    redlock.assert_lock_count("account:3", 0);

    let history = redlock.history();
    let waited = &history[1];
    assert_eq!(waited.key, "account:2");
    assert_eq!(waited.name, Some("testing::history::charge"));
    assert_eq!(waited.asked, seconds(0));
    assert_eq!(waited.granted.map(|at| at.as_secs()), Some(3));
    assert_eq!(waited.ended.map(|at| at.as_secs()), Some(4));
    assert_eq!(waited.outcome, Outcome::Released);

    redlock.clear_history();
    redlock.assert_locked(Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn it_knows_what_is_held_and_what_waits() {
    let redlock = Redlock::test();
    let guard = redlock.lock("k").acquire().await.unwrap();
    redlock.assert_held("k");
    redlock.assert_not_held("l");
    let waits = tokio::spawn(redlock.lock("k").wait(seconds(2)).acquire());
    sleep(seconds(1)).await;
    let last = || redlock.history().pop().unwrap().outcome;
    assert_eq!(last(), Outcome::Waiting);
    waits.abort();
    assert!(waits.await.unwrap_err().is_cancelled());
    assert_eq!(last(), Outcome::Cancelled);

    redlock.clear_history();
    redlock.assert_locked(["k"]);
    drop(guard);
    redlock.assert_not_held("k");
    assert_eq!(last(), Outcome::Released);

    // A guard that outlives its lease.
    let guard = redlock.lock("k").acquire().await.unwrap();
    sleep(seconds(6)).await;
    redlock.assert_not_held("k");
    assert_eq!(last(), Outcome::Expired);
    guard.release().await;
    assert_eq!(last(), Outcome::Expired);
}

#[tokio::test(start_paused = true)]
async fn a_failed_assertion_tells_the_whole_story() {
    let redlock = Redlock::test();
    let none = message_of(|| redlock.assert_locked(["a"]));
    assert_eq!(
        none,
        "expected locks: `a`\n  actual locks: none\n  history: no lock was asked for on this node set"
    );

    let _entered = redlock.enter();
    charge(7, 2).await.unwrap();
    let _guard = redlock.lock("b").acquire().await.unwrap();
    let _other = redlock.held_elsewhere("c");
    redlock.lock("c").acquire().await.unwrap_err();
    let history = "\n  history:\
        \n    `account:7` of `testing::history::charge` asked at 0s, locked at 0s, released at 2.0s\
        \n    `b` asked at 2.0s, locked at 2.0s, is held\
        \n    `c` asked at 2.0s, failed at 2.0s: lock `c` is held";
    for (assertion, beginning) in [
        (
            message_of(|| redlock.assert_locked(["b"])),
            "expected locks: `b`\n  actual locks: `account:7`, `b`",
        ),
        (
            message_of(|| redlock.assert_lock_count("b", 2)),
            "`b` was locked once, expected 2 times",
        ),
        (message_of(|| redlock.assert_held("c")), "`c` is not held"),
        (message_of(|| redlock.assert_not_held("b")), "`b` is held"),
    ] {
        let expected = format!("{beginning}{history}");
        assert!(assertion.starts_with(&expected), "{assertion}");
    }
}

#[tokio::test]
async fn a_node_set_that_was_shut_down_refuses_and_remembers_it() {
    let redlock = Redlock::test();
    redlock.shutdown(seconds(1)).await.unwrap();
    drop(redlock.lock("k").acquire().await.unwrap_err());
    let outcome = redlock.history()[0].outcome.clone();
    assert!(matches!(outcome, Outcome::Failed { .. }), "{outcome}");
}

/// The page on tests shows this text.
#[tokio::test(start_paused = true)]
async fn the_page_shows_what_a_failed_assertion_prints() {
    const PAGE: &str = include_str!("../../src/guide/testing.md");

    #[redis_lock(key = "stock:{sku}", name = "shop::reserve")]
    async fn reserve(sku: u64) -> Result<(), LockError> {
        sleep(seconds(1)).await;
        Ok(())
    }

    #[redis_lock(key = "invoice:{id}", name = "shop::bill")]
    async fn bill(id: u64) -> Result<(), LockError> {
        Ok(())
    }

    let redlock = Redlock::test();
    let _entered = redlock.enter();
    reserve(7).await.unwrap();
    let _other = redlock.held_elsewhere("invoice:12");
    bill(12).await.unwrap_err();
    let message = message_of(|| redlock.assert_locked(["stock:7", "invoice:12"]));
    assert!(
        PAGE.contains(&format!("```text\n{message}\n```")),
        "{message}"
    );
}
