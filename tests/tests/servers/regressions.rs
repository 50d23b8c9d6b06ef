//! Bugs that other lock libraries had or have, and that they do not happen here. Each test is named after the
//! library and its issue or pull request.
//!
//! These bugs are seen by tests that are about more than the bug:
//! - node-redlock #369, an extension that revives an expired lock, and a retry that is blocked by the attempt
//!   before: `suite::hold` and `suite::acquire` of the protocol.
//! - RedLock.net #93 and #46, a holder that hears of no renewal and says that it holds: the test of Redisson #3636.
//! - redlock-rb #76, antirez/redlock-rb #3, a node that timed out after it had granted: `faults`.
//! - redsync #186, #147 and #149, a majority that loses a node that forgets: `restarts`, and `lease` of extensions.
//! - Redisson #5698, #3194 and #1626, renewals while others wait, after an outage, and after the end: `suite::hold`,
//!   and `lease`.
//! - pottery #274 and rslock, guards that are dropped last or under tokio: `ways_out`.
//! - rslock, a node that does not answer and holds everybody up: `faults`.
//! - aiocache #979, tasks that release each other's locks: `chaos`.
//! - redis-rs #514 and #1552, requests that nobody polls: `ways_out`.
//! - redis-rs, `Script::invoke_async` that does not see that the server is another one: `suite::quarantine`.
//!
//! What cannot be a test of this crate:
//! - Redisson #2669, its RedLock was deprecated for locks of a single group of servers: that is a
//!   decision. Its reason, that there were no fencing tokens, does not hold here: see `fencing`.
//! - node-redlock #369, the leak of its timers: here no lock has a timer of its own. That nothing
//!   of an owner goes on after its release is in `lease`.
//! - rslock, its `Drop` that blocks the executor: dropping a guard waits for nothing here, so that
//!   there is nothing to block; that it needs no executor is in `ways_out`.

use std::time::{Duration, Instant};

use crate::common::{NEVER, acquire_on_all, await_sent, connect, connect_by, unhurried};
use redlock_runtime::{LockError, Release};
use redlock_tests::{Cluster, PATIENCE, Proxy};
use tokio::runtime::Runtime;

const KEY: &str = "k";

/// Is there to run out, or to be renewed in time on a busy machine.
const BRIEF: Duration = Duration::from_millis(900);

/// node-redlock #369: `acquire` and `extend` did not look whether the lease was over by the time
/// they returned.
#[tokio::test]
async fn node_redlock_369_an_expired_lock_is_never_handed_out() {
    let cluster = Cluster::start(3);
    let proxies = cluster.proxies();
    let redlock = connect_by(&proxies).await;
    proxies.iter().for_each(Proxy::hold_replies);

    let acquired = redlock.lock(KEY).expire(BRIEF).acquire().await;

    // All nodes have granted, unheard.
    for node in &cluster {
        node.await_event(KEY, "set", 1).await;
    }
    let error = acquired.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum(_)), "{error}");
    proxies.iter().for_each(Proxy::pass);
    cluster.await_free(KEY).await;
}

/// node-redlock #167 wanted the lease to count from the replies.
#[tokio::test]
async fn node_redlock_167_a_lease_counts_from_before_the_first_request() {
    let cluster = Cluster::start(3);
    let proxies = cluster.proxies();
    let redlock = connect_by(&proxies).await;
    proxies.iter().for_each(Proxy::hold_replies);
    let acquire = tokio::spawn(redlock.lock(KEY).acquire());
    for node in &cluster {
        node.await_event(KEY, "set", 1).await;
    }

    // Time that passes between request and reply, much less than a round may take.
    let granted = Instant::now();
    tokio::time::sleep(BRIEF / 10).await;
    let delay = granted.elapsed();
    proxies.iter().for_each(Proxy::pass);

    let guard = acquire.await.unwrap().unwrap();
    let remaining = guard.remaining();
    assert!(remaining <= NEVER - delay, "{remaining:?} after {delay:?}");
}

/// redlock-rb #36: an extension set the key again when it had expired, and with it a lock that
/// somebody else had held in the meantime.
#[tokio::test]
async fn redlock_rb_36_an_extension_that_comes_late_does_not_make_the_key_again() {
    let cluster = Cluster::start(3);
    let proxies = cluster.proxies();
    let (one, two) = (connect_by(&proxies).await, connect(&cluster).await);
    let guard = acquire_on_all(&one, &cluster, KEY).await;
    proxies.iter().for_each(Proxy::hold_requests);
    proxies.iter().for_each(Proxy::clear);
    let lease = guard.lease();
    let extension = tokio::spawn(async move { lease.extend().await });
    for proxy in &proxies {
        proxy.await_command("EVALSHA", 1).await;
    }

    // On its way the key goes, and somebody else comes and goes.
    for node in &cluster {
        node.command(&["DEL", KEY]);
    }
    let meantime = two.lock(KEY).acquire().await.unwrap();
    assert_eq!(meantime.release().await, Release::Released);
    cluster.await_free(KEY).await;
    proxies.iter().for_each(Proxy::pass);

    let error = extension.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::Lost(_)), "{error}");
    await_sent(&one, &cluster).await;
    assert_eq!(cluster.held_on(KEY), 0);
}

/// Redisson #3636: a holder that could not reach the server went on, and when it could again there
/// were two.
#[tokio::test]
async fn redisson_3636_a_holder_that_comes_back_from_an_outage_is_no_second_one() {
    let cluster = Cluster::start(3);
    let proxies = cluster.proxies();
    let (one, two) = (connect_by(&proxies).await, connect(&cluster).await);
    let lock = one.lock(KEY).expire(BRIEF).renew();
    let guard = lock.acquire().await.unwrap();
    proxies.iter().for_each(Proxy::hold_requests);

    let next = two.lock(KEY).wait(PATIENCE).acquire().await.unwrap();
    assert!(!guard.is_held(), "the leases of two holders overlap");
    proxies.iter().for_each(Proxy::pass);
    await_sent(&one, &cluster).await;

    assert_eq!(guard.release().await, Release::AlreadyExpired);
    await_sent(&one, &cluster).await;
    assert!(cluster.held_on(KEY) >= 2);
    assert!(next.is_held());
    assert_eq!(next.release().await, Release::Released);
}

/// pottery #274, where the engine itself was a part of what is gone.
#[test]
fn pottery_274_nor_does_it_matter_that_its_engine_is_gone() {
    let cluster = Cluster::start(3);
    let runtime = Runtime::new().unwrap();
    let guard = runtime.block_on(async {
        let builder = unhurried(cluster.urls()).runtime(runtime.handle().clone());
        let redlock = builder.build().await.unwrap();
        redlock.lock(KEY).acquire().await.unwrap()
    });

    drop(runtime);

    assert!(!guard.is_held(), "nobody is left who could know");
    drop(guard);
}
