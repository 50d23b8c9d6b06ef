//! What a lock does, whatever its nodes are. Each scenario is written once and runs twice: on
//! embedded nodes and on real servers. Several node sets over the same nodes stand for several
//! processes.

use std::{
    future::poll_fn,
    pin::Pin,
    process,
    sync::atomic::{AtomicU32, Ordering},
    task::Poll,
    time::Duration,
};

use redlock_runtime::{Guard, Lock, LockError, Redlock, Release};
use redlock_tests::Cluster;

/// Does not run out while a test runs.
const LONG: Duration = Duration::from_secs(60);

/// Is there to run out.
const BRIEF: Duration = Duration::from_millis(200);

macro_rules! on_both_kinds_of_nodes {
    ($($scenario:ident)*) => {
        mod on_embedded_nodes {
            $(#[tokio::test]
            async fn $scenario() {
                super::$scenario(super::Nodes::embedded).await;
            })*
        }

        mod on_real_servers {
            $(#[tokio::test]
            async fn $scenario() {
                super::$scenario(super::Nodes::servers).await;
            })*
        }
    };
}

on_both_kinds_of_nodes! {
    a_lock_is_granted_to_one_until_its_release
    a_dropped_guard_releases
    an_expired_holder_does_not_release_the_next_ones_lock
    who_waits_gets_the_lock_after_its_release
    any_text_is_a_key
    one_attempt_does_not_join_the_line
}

async fn a_lock_is_granted_to_one_until_its_release(start: Start) {
    let nodes = start(3);
    let (one, two) = (nodes.process().await, nodes.process().await);

    let guard = one.lock("k").expire(LONG).acquire().await.unwrap();
    assert!(guard.is_held());
    assert_eq!(guard.key(), "k");
    assert!(!guard.remaining().is_zero() && guard.remaining() <= LONG);
    nodes.assert_keys("k", 3).await;

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
    nodes.assert_freed_by_release("k").await;
    let next = two.lock("k").expire(LONG).try_acquire().await.unwrap();
    assert!(next.is_held());
}

async fn a_dropped_guard_releases(start: Start) {
    let nodes = start(3);
    let (one, two) = (nodes.process().await, nodes.process().await);

    drop(one.lock("k").expire(LONG).acquire().await.unwrap());

    let next = two.lock("k").expire(LONG).wait(LONG).acquire().await;
    assert!(next.unwrap().is_held());
}

async fn an_expired_holder_does_not_release_the_next_ones_lock(start: Start) {
    let nodes = start(3);
    let (one, two) = (nodes.process().await, nodes.process().await);
    let expired = expired(&one, "k").await;
    let next = two.lock("k").expire(LONG).wait(LONG).acquire().await;
    let next = next.unwrap();

    assert!(expired.extend().await.is_err());
    assert_eq!(expired.release().await, Release::AlreadyExpired);
    // Whatever `one` has sent for `k` is done when it hears of another key.
    let later = one.lock("later").expire(LONG).acquire().await.unwrap();
    assert_eq!(later.release().await, Release::Released);

    assert!(next.is_held());
    nodes.assert_keys("k", 3).await;
    let error = one.lock("k").acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Contended(_)), "{error}");
    assert_eq!(next.release().await, Release::Released);
}

async fn who_waits_gets_the_lock_after_its_release(start: Start) {
    let nodes = start(3);
    let (one, two) = (nodes.process().await, nodes.process().await);
    let guard = one.lock("k").expire(LONG).acquire().await.unwrap();
    let mut waiting = asked(two.lock("k").expire(LONG).wait(LONG)).await;

    assert_eq!(guard.release().await, Release::Released);

    assert!(waiting.as_mut().await.unwrap().is_held());
}

async fn any_text_is_a_key(start: Start) {
    let nodes = start(3);
    let (one, two) = (nodes.process().await, nodes.process().await);
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
        nodes.assert_keys(key, 3).await;
        let error = two.lock(key).acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Contended(_)), "{key:?}: {error}");
        assert_eq!(error.key(), Some(key));
        assert_eq!(guard.release().await, Release::Released, "{key:?}");
        nodes.assert_freed_by_release(key).await;
    }
}

async fn one_attempt_does_not_join_the_line(start: Start) {
    let nodes = start(3);
    let redlock = nodes.process().await;
    let guard = redlock.lock("k").expire(LONG).acquire().await.unwrap();

    for lock in [redlock.lock("k"), redlock.lock("k").wait(LONG)] {
        let error = lock.try_acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Contended(_)), "{error}");
        let retry_after = error.retry_after().expect("the holder's lease ends");
        assert!(!retry_after.is_zero() && retry_after <= LONG);
    }
    assert!(guard.is_held());
}

// ---- the nodes

type Start = fn(usize) -> Nodes;

/// Nodes of either kind.
struct Nodes {
    urls: Vec<String>,
    /// None for embedded nodes.
    servers: Option<Cluster>,
}

impl Nodes {
    fn embedded(size: usize) -> Self {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let url = |node| format!("memory://contract-{}-{number}-{node}", process::id());
        Self {
            urls: (0..size).map(url).collect(),
            servers: None,
        }
    }

    fn servers(size: usize) -> Self {
        let cluster = Cluster::start(size);
        Self {
            urls: cluster.urls(),
            servers: Some(cluster),
        }
    }

    /// A node set of its own over all nodes, as another process would have it.
    async fn process(&self) -> Redlock {
        Redlock::builder()
            .assume_fresh(true)
            .nodes(&self.urls)
            // However busy the machine is, all nodes vote.
            .connect_timeout(LONG)
            .node_timeout(LONG)
            .build()
            .await
            .unwrap()
    }

    /// On servers that can be asked: `count` of them have this very key, with an expiry.
    /// The caller may have heard of a majority's grants only.
    async fn assert_keys(&self, key: &str, count: usize) {
        if let Some(servers) = &self.servers {
            crate::common::await_state("keys on all nodes", || servers.held_on(key) == count).await;
        }
    }

    /// On servers that can be asked: the key is gone, deleted and not expired.
    async fn assert_freed_by_release(&self, key: &str) {
        if let Some(servers) = &self.servers {
            servers.await_free(key).await;
        }
    }
}

// ---- the steps

type Asked = Pin<Box<dyn Future<Output = Result<Guard, LockError>> + Send>>;

/// Asks for a lock that is not free: when this returns, the question is on its way.
async fn asked(lock: Lock) -> Asked {
    let mut asked: Asked = Box::pin(lock.acquire());
    poll_fn(|context| {
        assert!(asked.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
    asked
}

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
