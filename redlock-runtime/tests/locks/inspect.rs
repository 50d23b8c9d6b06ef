//! What operators are told of locks on nodes in memory: everything but what servers add.

use std::time::Duration;

use futures_util::FutureExt;
use redlock_runtime::{ConfigProblem, HolderKind, LockError, ProblemKind, Redlock};

use crate::problem;

const WAIT: Duration = Duration::from_secs(60);

async fn nodes(name: &str) -> Redlock {
    let urls = [1, 2, 3].map(|node| format!("memory://inspected-{name}-{node}"));
    // On a machine with much else to do.
    let (expire, timeout) = (Duration::from_secs(60), Duration::from_secs(30));
    let builder = Redlock::builder().expire(expire).node_timeout(timeout);
    let builder = builder.nodes(urls).service("a service");
    builder.key_prefix("lock:").build().await.unwrap()
}

#[tokio::test]
async fn a_free_lock_has_no_holder() {
    let redlock = nodes("free").await;
    let found = redlock.inspect("k").await;
    assert_eq!(&*found.key, "lock:k");
    assert!(!found.is_held() && found.holders.is_empty());
    assert_eq!(found.to_string(), "lock:k is free; 3 of 3 nodes replied");
}

#[tokio::test]
async fn holder_and_waiters_of_this_process_are_told() {
    let redlock = nodes("held").await;
    let guard = redlock.lock("k").acquire().await.unwrap();
    let mut waiting = std::pin::pin!(redlock.lock("k").wait(WAIT).acquire());
    assert!(waiting.as_mut().now_or_never().is_none());

    let found = redlock.inspect("k").await;
    let [holder] = &found.holders[..] else {
        panic!("{found}")
    };
    assert!(holder.has_majority && holder.nodes.len() == 3, "{found}");
    assert_eq!(holder.kind, HolderKind::Exclusive);
    let process = holder.process.as_ref().unwrap();
    assert_eq!(process.service, "a_service");
    assert_eq!(process.pid, std::process::id());
    assert!(process.is_this && holder.owner.starts_with(&process.id));
    let [first, second] = &found.sections[..] else {
        panic!("{found}")
    };
    assert!(!first.waits && !first.remaining.is_zero(), "{found}");
    assert!(second.waits && second.remaining.is_zero(), "{found}");
    assert!(first.asked > second.asked, "{found}");

    guard.release().await;
    waiting.await.unwrap().release().await;
    assert!(redlock.inspect("k").await.sections.is_empty());
}

#[tokio::test]
async fn each_reader_and_each_permit_is_a_holder() {
    let redlock = nodes("shared").await;
    let other = nodes("shared").await;
    let reader = redlock.lock("page").shared().acquire().await.unwrap();
    let another = other.lock("page").shared().acquire().await.unwrap();
    let found = redlock.inspect("page").await;
    assert_eq!(found.holders.len(), 2, "{found}");
    let is_shared = |kind| kind == HolderKind::Shared;
    assert!(found.holders.iter().all(|holder| is_shared(holder.kind)));
    // The other node set is in this process, and not this one.
    let known = found.holders.iter().filter(|it| it.process.is_some());
    assert_eq!(known.count(), 1, "{found}");
    assert!(found.sections[0].is_shared);
    reader.release().await;
    another.release().await;

    let permit = || redlock.lock("seat").permits(2);
    let (one, two) = (
        permit().acquire().await.unwrap(),
        permit().acquire().await.unwrap(),
    );
    let mut waiting = std::pin::pin!(permit().wait(WAIT).acquire());
    assert!(waiting.as_mut().now_or_never().is_none());
    let found = redlock.inspect("seat").await;
    let mut permits: Vec<_> = found.holders.iter().map(|it| it.permit).collect();
    permits.sort_unstable();
    assert_eq!(permits, [Some(0), Some(1)], "{found}");
    let waits: Vec<bool> = found.sections.iter().map(|section| section.waits).collect();
    assert_eq!(waits, [false, false, true], "{found}");
    drop((one, two));
}

#[tokio::test]
async fn a_section_with_several_keys_is_one_of_each_of_them() {
    let redlock = nodes("several").await;
    let both = redlock.lock_all(["a", "b"]).acquire().await.unwrap();
    for key in ["a", "b"] {
        let found = redlock.inspect(key).await;
        assert!(found.is_held() && found.sections.len() == 1, "{found}");
    }
    both.release().await;
}

/// The values of all that hold it.
async fn values(redlock: &Redlock, key: &str) -> Vec<Option<String>> {
    let found = redlock.inspect(key).await;
    found.holders.into_iter().map(|it| it.value).collect()
}

/// The engine takes it on in its own time.
async fn await_values(redlock: &Redlock, key: &str, expected: &[Option<&str>]) {
    loop {
        let mut found = values(redlock, key).await;
        found.sort_unstable();
        if found
            .iter()
            .map(Option::as_deref)
            .eq(expected.iter().copied())
        {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_value_of_a_lock_is_shown_while_it_is_held() {
    let redlock = nodes("value").await;
    let guard = redlock.lock("k").value("first").acquire().await.unwrap();
    await_values(&redlock, "k", &[Some("first")]).await;
    let text = redlock.inspect("k").await.to_string();
    assert!(text.contains(", value \"first\", owner "), "{text}");
    let mut next = std::pin::pin!(redlock.lock("k").wait(WAIT).acquire());
    assert!(next.as_mut().now_or_never().is_none());
    guard.release().await;
    let guard = next.await.unwrap();
    assert_eq!(
        values(&redlock, "k").await,
        [None],
        "it was that of another"
    );
    guard.release().await;

    let seat = |value| redlock.lock("seat").permits(2).value(value);
    let permits = (seat("a").acquire().await, seat("b").acquire().await);
    await_values(&redlock, "seat", &[Some("a"), Some("b")]).await;
    let both = redlock.lock_all(["x", "y"]).value("both").acquire().await;
    for key in ["x", "y"] {
        await_values(&redlock, key, &[Some("both")]).await;
    }
    drop((permits, both));
}

#[tokio::test]
async fn a_value_that_cannot_be_kept_is_refused() {
    let redlock = nodes("no-value").await;
    let long = redlock.lock("k").value("x".repeat(257)).acquire().await;
    let error = long.unwrap_err();
    let ConfigProblem { kind, setting, .. } = problem(&error);
    assert_eq!((*kind, &**setting), (ProblemKind::BadOption, "value"));
    let shared = redlock.lock("k").value("x").shared().acquire().await;
    let error = shared.unwrap_err();
    assert_eq!(problem(&error).kind, ProblemKind::NotTogether);
    let longest = "\u{e9}".repeat(128);
    let guard = redlock.lock("k").value(&longest).acquire().await.unwrap();
    await_values(&redlock, "k", &[Some(&longest)]).await;
    drop(guard);
}

#[tokio::test]
async fn texts_repeat_a_key_on_one_short_line() {
    let redlock = nodes("odd").await;
    // Of what a client may have sent.
    let key = format!("a\nb\u{1b}[2J{}", "x".repeat(1 << 14));
    let guard = redlock.lock(&*key).acquire().await.unwrap();
    let error = nodes("odd").await.lock(&*key).acquire().await.unwrap_err();
    let reserved = Redlock::builder()
        .nodes(["memory://odd"])
        .key_prefix(format!("__redlock:{key}"));
    for text in [
        error.to_string(),
        format!("{error:?}"),
        redlock.inspect(&key).await.to_string(),
        reserved.build().await.unwrap_err().to_string(),
    ] {
        assert!(text.contains("a\\nb\\u{1b}[2Jxxx"), "{text:.500}");
        let longest = text.lines().map(str::len).max();
        assert!(longest < Some(1_000), "{text:.500}");
    }
    // All of it, for programs.
    assert_eq!(error.report().unwrap().key(), format!("lock:{key}"));
    drop(guard);
}

#[tokio::test]
async fn one_node_is_counted_as_one() {
    let urls = ["redis://127.0.0.1:1"];
    let builder = Redlock::builder().nodes(urls).require_quorum(false);
    let redlock = builder.build().await.unwrap();
    let text = redlock.health().to_string();
    assert!(
        text.starts_with("0 of 1 node votes, 1 is needed: "),
        "{text}"
    );
    let text = redlock.inspect("k").await.to_string();
    assert!(text.contains("; 0 of 1 node replied"), "{text}");
}

#[tokio::test]
async fn no_node_votes_for_a_node_set_that_was_shut_down() {
    let redlock = nodes("shut-down").await;
    assert!(redlock.health().has_quorum());
    redlock.shutdown(WAIT).await.unwrap();
    let text = redlock.health().to_string();
    assert!(
        text.starts_with("0 of 3 nodes vote, 2 are needed: "),
        "{text}"
    );
    assert!(
        text.ends_with("-3 is unreachable (the node set was shut down)"),
        "{text}"
    );
    let error = redlock.ready(WAIT).await.unwrap_err();
    assert!(error.to_string().ends_with(&text), "{error}");
}

#[tokio::test]
async fn a_lock_is_broken_whoever_holds_it_and_its_holder_learns_of_that() {
    let redlock = nodes("broken").await;
    assert_eq!(redlock.break_lock("k").await.unwrap(), 0, "it is free");

    let guard = redlock.lock("k").acquire().await.unwrap();
    assert_eq!(redlock.inspect("k").await.holders.len(), 1);
    assert_eq!(redlock.break_lock("k").await.unwrap(), 3);
    assert!(!redlock.inspect("k").await.is_held());
    let told = guard.extend().await.unwrap_err();
    assert!(matches!(told, LockError::Lost(_)), "{told}");

    let reader = redlock.lock("k").shared();
    let readers = [
        reader.acquire().await.unwrap(),
        reader.acquire().await.unwrap(),
    ];
    assert_eq!(redlock.break_lock("k").await.unwrap(), 3);
    for reader in &readers {
        let told = reader.extend().await.unwrap_err();
        assert!(matches!(told, LockError::Lost(_)), "{told}");
    }

    let permit = redlock.lock("k").permits(1).acquire().await.unwrap();
    assert_eq!(redlock.break_lock("k").await.unwrap(), 0, "another key");
    assert_eq!(redlock.break_lock("k#__redlock:0").await.unwrap(), 3);
    let told = permit.extend().await.unwrap_err();
    assert!(matches!(told, LockError::Lost(_)), "{told}");
}

#[tokio::test]
async fn what_is_no_lock_is_not_deleted() {
    let redlock = nodes("no-lock").await;
    let error = redlock.break_lock("").await.unwrap_err();
    assert!(matches!(error, LockError::EmptyKey { .. }), "{error}");
    let nodes = ["memory://no-lock-without-prefix"];
    let redlock = Redlock::builder().nodes(nodes).build().await.unwrap();
    let error = redlock.break_lock("__redlock:node:0").await.unwrap_err();
    assert!(matches!(error, LockError::Config(_)), "{error}");
}
