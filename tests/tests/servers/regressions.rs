//! Bugs that other lock libraries had or have, one after the other, and that they do not happen
//! here. Each test is named after the library and its issue or pull request, and is as small as
//! the bug allows; the rules behind it have larger tests of their own.
//!
//! What cannot be a test of this crate:
//! - Redisson #2669, its RedLock was deprecated for locks of a single group of servers: that is a
//!   decision. Its reason, that there were no fencing tokens, does not hold here: see `fencing`.
//! - node-redlock #369, the leak of its timers: here no lock has a timer of its own. That nothing
//!   of an owner goes on after its release is in `lease`.
//! - rslock, its `Drop` that blocks the executor: dropping a guard waits for nothing here, so that
//!   there is nothing to block; that it needs no executor is in `ways_out`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use crate::common::{
    NEVER, acquire_on_all, await_sent, await_state, connect, connect_by, found, is_release,
    unhurried,
};
use redlock_runtime::{LockError, NodeState, Redlock, Release, Verdict};
use redlock_tests::{Cluster, PATIENCE, Proxy, Server};
use tokio::{runtime::Runtime, task::JoinSet, time::timeout};

const KEY: &str = "k";

/// Is there to run out, or to be renewed in time on a busy machine.
const BRIEF: Duration = Duration::from_millis(900);

// ---- node-redlock

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

/// node-redlock #369, the other half.
#[tokio::test]
async fn node_redlock_369_an_extension_does_not_revive_an_expired_lock() {
    let cluster = Cluster::start(3);
    let proxies = cluster.proxies();
    let redlock = connect_by(&proxies).await;
    let lock = redlock.lock(KEY).expire(BRIEF);
    let guard = lock.acquire().await.unwrap();
    proxies.iter().for_each(Proxy::hold_replies);
    let lease = guard.lease();
    let extension = tokio::spawn(async move { lease.extend().await });

    let error = guard.lost().await;
    assert!(matches!(error, LockError::Expired(_)), "{error}");
    // Now they say that they have extended it, as they have.
    proxies.iter().for_each(Proxy::pass);
    await_sent(&redlock, &cluster).await;

    extension.await.unwrap().unwrap_err();
    assert!(!guard.is_held());
    guard.extend().await.unwrap_err();
}

/// node-redlock #369: what an attempt had won and not given back was in the way of the next.
#[tokio::test]
async fn node_redlock_369_a_retry_is_not_blocked_by_the_attempt_before() {
    let cluster = Cluster::start(3);
    let redlock = connect(&cluster).await;
    cluster.occupy(KEY, "foreign", NEVER, [0, 1]);
    let error = redlock.lock(KEY).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Contended(_)), "{error}");

    // Of the two that are free now, one has granted before.
    assert!(cluster[1].compare_and_delete(KEY, "foreign"));

    assert!(redlock.lock(KEY).acquire().await.unwrap().is_held());
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

// ---- RedLock.net

/// RedLock.net #93, #46: an instance whose automatic extension had failed went on to say that it
/// was acquired, and so did the next.
#[tokio::test]
async fn redlock_net_93_a_holder_that_hears_of_no_renewal_does_not_say_that_it_holds() {
    let cluster = Cluster::start(3);
    let proxies = cluster.proxies();
    let (one, two) = (connect_by(&proxies).await, connect(&cluster).await);
    let lock = one.lock(KEY).expire(BRIEF).renew();
    let guard = lock.acquire().await.unwrap();
    proxies.iter().for_each(Proxy::hold_replies);

    let next = two.lock(KEY).wait(PATIENCE).acquire().await.unwrap();

    assert!(!guard.is_held(), "the leases of two holders overlap");
    let error = guard.lost().await;
    assert!(matches!(error, LockError::Expired(_)), "{error}");
    assert!(next.is_held());
}

// ---- redlock-rb

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

/// redlock-rb #76, antirez/redlock-rb #3: a time-out after the key was written left it there, since
/// the node counted as one that had not been locked.
#[tokio::test]
async fn redlock_rb_76_a_node_that_timed_out_after_it_had_granted_is_released() {
    let cluster = Cluster::start(3);
    let proxies = cluster.proxies();
    let urls = proxies.iter().map(Proxy::url);
    let redlock = unhurried(urls).node_timeout(BRIEF / 5);
    let redlock = redlock.build().await.unwrap();
    proxies.iter().for_each(Proxy::hold_replies);

    let error = redlock.lock(KEY).acquire().await.unwrap_err();

    assert!(matches!(error, LockError::NoQuorum(_)), "{error}");
    // And nobody has heard of a grant yet.
    for node in &cluster {
        node.await_event(KEY, "del", 1).await;
        assert_eq!(node.events(KEY), ["set", "expire", "del"]);
    }
}

// ---- redsync

/// redsync #186: a majority that was kept at exactly that lost a node, and the node together with
/// those that had not been won made another.
#[tokio::test]
async fn redsync_186_a_bare_majority_that_loses_a_node_leaves_no_room_for_another() {
    let cluster = founded(5).await;
    let proxies = cluster.proxies();
    proxies[3..].iter().for_each(Proxy::refuse);
    let one = unhurried(proxies.iter().map(Proxy::url)).assume_fresh(false);
    let (one, two) = (one.build().await.unwrap(), careful(&cluster).await);
    let guard = one.lock(KEY).acquire().await.unwrap();
    assert_eq!(cluster.held_on(KEY), 3);

    cluster[2].restart();
    await_state("a quarantine", || {
        let nodes = two.nodes();
        matches!(nodes[2].state(), NodeState::Quarantined { .. })
    })
    .await;

    let error = two.lock(KEY).acquire().await.unwrap_err();
    let verdict = error.verdicts()[2].verdict();
    assert!(matches!(verdict, Verdict::Quarantined { .. }), "{error}");
    let lost = timeout(PATIENCE, guard.lost()).await.expect("it is told");
    assert!(matches!(lost, LockError::Lost(_)), "{lost}");
}

/// redsync #147, #149: nodes that had been restarted were not extended, which nobody noticed before
/// the last of the majority was. To set the key there again, as was proposed, would be redlock-rb
/// #36 if the node voted at once or if no majority had it any more; what is not extended on a
/// majority must be an error, at once.
#[tokio::test]
async fn redsync_147_an_extension_counts_no_node_that_has_lost_the_key() {
    let cluster = founded(3).await;
    let redlock = careful(&cluster).await;
    let guard = acquire_on_all(&redlock, &cluster, KEY).await;
    for restarted in 0..2 {
        cluster[restarted].restart();
        await_state("a quarantine", || {
            let nodes = redlock.nodes();
            matches!(nodes[restarted].state(), NodeState::Quarantined { .. })
        })
        .await;
        assert!(!cluster[restarted].exists(KEY));
        if restarted == 0 {
            guard.extend().await.unwrap();
        }
    }

    let error = guard.extend().await.unwrap_err();

    assert!(matches!(error, LockError::Lost(_)), "{error}");
    assert!(!guard.is_held());
}

// ---- Redisson

/// Redisson #5698: while others asked for the lock, it was now and then not renewed.
#[tokio::test]
async fn redisson_5698_renewals_go_on_while_others_wait() {
    let cluster = Cluster::start(3);
    let (holder, rival) = (connect(&cluster).await, connect(&cluster).await);
    let lock = holder.lock(KEY).expire(BRIEF).renew();
    let guard = lock.acquire().await.unwrap();
    let mut waiting = JoinSet::new();
    for redlock in [&holder, &rival, &rival] {
        waiting.spawn(redlock.lock(KEY).wait(NEVER).acquire());
    }

    // Three leases.
    await_renewals(&cluster, 9).await;

    assert!(guard.is_held());
    assert!(waiting.try_join_next().is_none(), "one of them has got it");
}

/// Redisson #3194: after an outage in which a lock had been lost, the next was not renewed.
#[tokio::test]
async fn redisson_3194_a_lock_taken_after_an_outage_is_renewed() {
    let cluster = Cluster::start(3);
    let proxies = cluster.proxies();
    let redlock = connect_by(&proxies).await;
    let lock = || redlock.lock(KEY).expire(BRIEF).renew();
    let lost = lock().acquire().await.unwrap();
    proxies.iter().for_each(Proxy::hold_requests);
    lost.lost().await;
    drop(lost);
    proxies.iter().for_each(Proxy::pass);

    let guard = lock().wait(PATIENCE).acquire().await.unwrap();

    await_renewals(&cluster, 9).await;
    assert!(guard.is_held());
}

/// Redisson #1626: a renewal was never cancelled, and the lock never free again.
#[tokio::test]
async fn redisson_1626_renewals_end_with_the_task_that_held() {
    let renewal = Duration::from_millis(20);
    let cluster = Cluster::start(3);
    let proxies = cluster.proxies();
    let redlock = connect_by(&proxies).await;
    let lock = redlock.lock(KEY).renew_every(renewal);
    let held = tokio::spawn(lock.hold(async |_| std::future::pending::<()>().await));
    await_renewals(&cluster, 3).await;
    let owner = cluster[0].get(KEY).unwrap();

    held.abort();
    cluster.await_free(KEY).await;

    // Time for several renewals, if there were any.
    let other = redlock.lock("other").renew_every(renewal).acquire().await;
    cluster[0].await_event("other", "expire", 1 + 5).await;
    drop(other);
    for proxy in &proxies {
        let mut commands = proxy.traffic().commands;
        commands.retain(|command| command.words.contains(&owner));
        let last = commands.pop().unwrap().words;
        assert!(is_release(&last), "{last:?}");
    }
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

// ---- pottery

/// pottery #274: a lock that was released by its destructor when everything around it was gone
/// took the process down.
#[test]
fn pottery_274_a_guard_may_be_the_last_thing_that_is_dropped() {
    let cluster = Cluster::start(3);
    let runtime = Runtime::new().unwrap();
    let (redlock, guard) = runtime.block_on(async {
        let redlock = connect(&cluster).await;
        let guard = acquire_on_all(&redlock, &cluster, KEY).await;
        (redlock, guard)
    });

    drop(runtime);
    drop(redlock);
    drop(guard);

    cluster.wait_free(KEY);
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

// ---- rslock

/// rslock: under tokio its guard had no `Drop` at all.
#[tokio::test]
async fn rslock_a_guard_dropped_under_tokio_is_released() {
    let cluster = Cluster::start(3);
    let redlock = connect(&cluster).await;
    let guard = acquire_on_all(&redlock, &cluster, KEY).await;

    drop(guard);

    cluster.await_free(KEY).await;
}

/// rslock: a node that does not answer held up every acquisition, since all were joined.
#[tokio::test]
async fn rslock_a_node_that_does_not_answer_holds_nobody_up() {
    let cluster = Cluster::start(3);
    let redlock = connect(&cluster).await;
    cluster[0].stop();

    // A round may wait for a second. If each did, this would outlast the test.
    let rounds = async {
        for _ in 0..40 {
            let guard = redlock.lock(KEY).acquire().await.unwrap();
            guard.extend().await.unwrap();
            assert_eq!(guard.release().await, Release::Released);
        }
    };
    timeout(PATIENCE, rounds).await.expect("nobody is held up");

    cluster[0].cont();
    cluster.await_free(KEY).await;
}

// ---- aiocache

/// aiocache #979: when one task released, a second had just taken the lock and a third came, the
/// release of the one took away what the process knew of the other.
#[tokio::test]
async fn aiocache_979_tasks_that_come_as_others_go_do_not_release_each_other() {
    const TASKS: usize = 10;
    const TURNS: usize = 20;
    let cluster = Cluster::start(3);
    let redlock = connect(&cluster).await;
    let inside = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (redlock, inside) = (redlock.clone(), Arc::clone(&inside));
        tasks.spawn(async move {
            for _ in 0..TURNS {
                let guard = redlock.lock(KEY).wait(NEVER).acquire().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                assert_eq!(guard.release().await, Release::Released);
            }
        });
    }

    tasks.join_all().await;

    cluster.await_free(KEY).await;
}

// ---- redis-rs

/// redis-rs #514, #1552: a request is not sent if its future is dropped before it was polled, which
/// a release must not depend on.
#[tokio::test]
async fn redis_rs_514_a_release_that_nobody_polls_is_sent() {
    let cluster = Cluster::start(3);
    let redlock = connect(&cluster).await;
    let guard = acquire_on_all(&redlock, &cluster, KEY).await;

    drop(guard.release());

    cluster.await_free(KEY).await;
}

/// redis-rs #514, #1552, of an acquisition that is cancelled before its caller has heard of it.
#[tokio::test]
async fn redis_rs_514_a_cancelled_acquisition_is_released_although_nobody_polls() {
    let cluster = Cluster::start(3);
    let proxies = cluster.proxies();
    let redlock = connect_by(&proxies).await;
    proxies.iter().for_each(Proxy::hold_replies);
    let acquire = tokio::spawn(redlock.lock(KEY).acquire());
    for node in &cluster {
        node.await_event(KEY, "set", 1).await;
    }

    acquire.abort();

    cluster.await_free(KEY).await;
}

/// redis-rs, `Script::invoke_async`: it sends a script that is missing again and goes on, and so
/// does not see that the server is another one than it was.
#[tokio::test]
async fn redis_rs_script_a_server_that_misses_scripts_is_asked_who_it_is_before_it_votes() {
    let cluster = Cluster::start(3);
    let proxies = cluster.proxies();
    let redlock = connect_by(&proxies).await;
    for node in &cluster {
        node.command(&["SCRIPT", "FLUSH"]);
    }

    let guard = redlock.lock(KEY).acquire().await.unwrap();

    for (node, proxy) in cluster.iter().zip(&proxies) {
        node.await_event(KEY, "set", 1).await;
        let commands = proxy.traffic().commands;
        let question = commands.iter().position(|command| command.name() == "INFO");
        let is_vote = |place: &usize| {
            let command = &commands[*place];
            command.name().starts_with("EVAL") && command.words.iter().any(|word| word == KEY)
        };
        let mut votes = (0..commands.len()).filter(is_vote);
        // The server did not know the script of the first.
        let vote = votes.nth(1);
        assert!(question.is_some() && question < vote, "{commands:#?}");
    }
    assert_eq!(guard.release().await, Release::Released);
}

// ---- the nodes

/// Nodes that have been in use, by a client that has gone again.
async fn founded(size: usize) -> Cluster {
    let cluster = Cluster::start(size);
    found(&cluster, unhurried).await;
    cluster
}

/// A node set whose quarantines outlast every test.
async fn careful(cluster: &Cluster) -> Redlock {
    let builder = unhurried(cluster.urls()).assume_fresh(false);
    builder.build().await.unwrap()
}

// ---- the steps

/// Waits until the key has been renewed, from now on, this often on every node.
async fn await_renewals(cluster: &Cluster, count: usize) {
    let expiries = |node: &Server| {
        let events = node.events(KEY);
        events.iter().filter(|event| *event == "expire").count()
    };
    let before: Vec<usize> = cluster.iter().map(expiries).collect();
    for (node, before) in cluster.iter().zip(before) {
        node.await_event(KEY, "expire", before + count).await;
    }
}
