//! Sections within sections: who joins, who fails at once, and what ends with what. The clock is paused.

use std::{
    future::{Future, pending, poll_fn},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use redlock_runtime::{Lease, Lock, LockError, Redlock, Release};
use tokio::{
    sync::{Barrier, Notify, oneshot},
    task::{LocalSet, spawn_local, yield_now},
    time::{Instant, advance, sleep},
};

use crate::{builder, redlock};

const LEASE: Duration = Duration::from_secs(5);
const NEVER: Duration = Duration::from_secs(3_600);
const KEY: &str = "k";

fn reentrant(redlock: &Redlock) -> Lock {
    redlock.lock(KEY).reentrant()
}

/// Asked from a task of its own, which is under no lease.
async fn is_free(redlock: &Redlock) -> bool {
    let attempt = redlock.lock(KEY).try_acquire();
    tokio::spawn(attempt).await.unwrap().is_ok()
}

/// What never ends fails its test: the clock goes on when nothing else does.
async fn in_time<F: Future>(future: F) -> F::Output {
    let ended = tokio::time::timeout(NEVER, future).await;
    ended.expect("it ends")
}

#[tokio::test(start_paused = true)]
async fn code_finds_the_lease_that_it_runs_under_and_no_other() {
    let redlock = builder().key_prefix("shop:").build().await.unwrap();
    let here = |key: &str| redlock.current_lease(key);
    let token = |lease: Lease| lease.fencing_token().unwrap();
    assert!(here(KEY).is_none());
    let body = redlock.lock_all([KEY, "l"]).hold(async |outer| {
        for key in [KEY, "l"] {
            assert_eq!(here(key).map(token), outer.fencing_token().ok());
        }
        assert!(here("m").is_none());
        let other = redlock.clone();
        let elsewhere = || {
            let other = other.clone();
            async move { other.current_lease(KEY).is_some() }
        };
        assert!(!tokio::spawn(elsewhere()).await.unwrap());
        let scoped = outer.scope(elsewhere());
        assert!(tokio::spawn(scoped).await.unwrap().unwrap());
        outer
    });
    let outer = body.await.unwrap();
    assert!(here(KEY).is_none());
    assert!(outer.scope(async {}).await.is_err());

    let guard = redlock.lock(KEY).acquire().await.unwrap();
    assert!(here(KEY).is_none());
    assert!(guard.scope(async { here(KEY).is_some() }).await.unwrap());
    let permit = redlock.lock("p").permits(2);
    let has_key = permit.hold(async |_| here("p").is_some()).await;
    assert!(!has_key.unwrap());
}

// ---- joining

#[tokio::test(start_paused = true)]
async fn a_nested_section_joins_and_the_outermost_releases() {
    let redlock = redlock().await;
    let outer = redlock.lock(KEY).hold(async |outer| {
        for _ in 0..2 {
            let inner = reentrant(&redlock).hold(async |inner| {
                assert_eq!(inner.key(), KEY);
                assert_eq!(inner.remaining(), outer.remaining());
                inner.fencing_token().unwrap()
            });
            assert_eq!(inner.await.unwrap(), outer.fencing_token().unwrap());
            assert!(!is_free(&redlock).await);
        }
        let guard = reentrant(&redlock).acquire().await.unwrap();
        assert_eq!(guard.release().await, Release::Joined);
        drop(reentrant(&redlock).try_acquire().await.unwrap());
        assert!(outer.is_held() && !is_free(&redlock).await);
    });
    outer.await.unwrap();
    assert!(is_free(&redlock).await);
}

#[tokio::test(start_paused = true)]
async fn branches_of_one_body_join() {
    let redlock = redlock().await;
    let outer = redlock.lock(KEY).hold(async |_| {
        let section = || reentrant(&redlock).hold(async |_| yield_now().await);
        let (one, two) = tokio::join!(section(), section());
        one.and(two).unwrap();
        let many: FuturesUnordered<_> = (0..5).map(|_| section()).collect();
        assert!(many.all(|ended| async move { ended.is_ok() }).await);
        tokio::select! {
            ended = section() => ended.unwrap(),
            () = pending() => {}
        }
    });
    outer.await.unwrap();
    assert!(is_free(&redlock).await);
}

#[tokio::test(start_paused = true)]
async fn other_keys_and_other_node_sets_are_other_locks() {
    let (redlock, other) = (redlock().await, redlock().await);
    let outer = redlock.lock(KEY).hold(async |outer| {
        for lock in [redlock.lock("other"), other.lock(KEY)] {
            let guard = lock.acquire().await.unwrap();
            assert_ne!(
                guard.fencing_token().unwrap(),
                outer.fencing_token().unwrap()
            );
            assert_eq!(guard.release().await, Release::Released);
        }
    });
    outer.await.unwrap();
}

/// The key that counts is that on the nodes.
#[tokio::test(start_paused = true)]
async fn a_prefix_belongs_to_the_key() {
    let redlock = builder().key_prefix("shop:").build().await.unwrap();
    let outer = redlock.lock(KEY).hold(async |_| {
        let joined = reentrant(&redlock).acquire().await.unwrap();
        assert_eq!(joined.key(), "shop:k");
        assert_eq!(joined.release().await, Release::Joined);
        let other = redlock.lock("shop:k").acquire().await.unwrap();
        assert_eq!(other.release().await, Release::Released);
    });
    outer.await.unwrap();
}

// ---- the time

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_too_short_is_extended_first() {
    let redlock = redlock().await;
    let outer = redlock.lock(KEY).expire(LEASE).hold(async |outer| {
        let joined = async |asks: Duration| {
            let inner = reentrant(&redlock).expire(asks).acquire().await;
            inner.unwrap().remaining()
        };
        advance(LEASE / 2).await;
        assert_eq!(joined(LEASE / 2).await, LEASE / 2);
        assert_eq!(joined(LEASE).await, LEASE);
        advance(LEASE / 25).await;
        assert_eq!(joined(LEASE).await, LEASE - LEASE / 25);
        // To its full length, and not beyond.
        advance(LEASE / 2).await;
        assert_eq!(joined(LEASE * 2).await, LEASE);
        assert_eq!(outer.remaining(), LEASE);
    });
    outer.await.unwrap();
}

/// The nodes confirm it, and then the task is not polled until it is over.
#[tokio::test(start_paused = true)]
async fn an_extension_that_is_over_again_is_not_joined() {
    let redlock = redlock().await;
    let outer = redlock.lock(KEY).expire(LEASE).hold(async |outer| {
        sleep(LEASE / 2).await;
        let inner = reentrant(&redlock).expire(LEASE).acquire();
        let mut inner = Box::pin(inner);
        assert!((&mut inner).now_or_never().is_none());
        while outer.remaining() < LEASE {
            yield_now().await;
        }
        let _ = advance(LEASE).now_or_never();
        inner.now_or_never().unwrap().unwrap_err()
    });
    let error = outer.await.unwrap();
    assert!(matches!(error, LockError::Expired(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_renewed_is_not_extended() {
    let redlock = redlock().await;
    let lock = redlock
        .lock(KEY)
        .expire(LEASE)
        .renew_every(LEASE - LEASE / 5);
    let outer = lock.hold(async |outer| {
        advance(LEASE / 2).await;
        drop(reentrant(&redlock).expire(LEASE).acquire().await.unwrap());
        assert_eq!(outer.remaining(), LEASE / 2);
    });
    outer.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_nested_body_ends_with_the_outer_lease() {
    let redlock = redlock().await;
    let start = Instant::now();
    let lock = redlock.lock(KEY).expire(LEASE);
    let outer = lock.hold(async |_| {
        let inner = reentrant(&redlock).renew().max_hold(NEVER);
        inner.hold(async |_| sleep(NEVER).await).await
    });
    let ended = outer.await;
    assert!(matches!(ended, Err(LockError::Expired(_))), "{ended:?}");
    assert_eq!(start.elapsed().as_secs(), LEASE.as_secs());
}

/// In the middle of a poll nobody has cut the outer body off yet.
#[tokio::test(start_paused = true)]
async fn an_outer_lease_that_has_ended_is_not_joined() {
    let redlock = redlock().await;
    let (heard, hears) = std::sync::mpsc::channel();
    let outer = redlock.lock(KEY).expire(LEASE).hold(async |_| {
        let _ = advance(LEASE).now_or_never();
        let inner = reentrant(&redlock).acquire().now_or_never().unwrap();
        heard.send(inner.unwrap_err()).unwrap();
    });
    outer.await.unwrap();
    let error = hears.recv().unwrap();
    assert!(matches!(error, LockError::Expired(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn options_that_cannot_work_are_refused_all_the_same() {
    let redlock = redlock().await;
    let outer = redlock.lock(KEY).hold(async |_| {
        let inner = reentrant(&redlock).expire(LEASE * 1_000).acquire().await;
        assert!(matches!(inner, Err(LockError::Config(_))), "{inner:?}");
    });
    outer.await.unwrap();
}

// ---- without the flag

#[tokio::test(start_paused = true)]
async fn a_nested_section_that_does_not_join_fails_at_once() {
    let redlock = redlock().await;
    let start = Instant::now();
    let outer = redlock.lock(KEY).hold(async |outer| {
        let error = redlock.lock(KEY).wait(NEVER).acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Nested(_)), "{error}");
        assert_eq!(error.key(), Some(KEY));
        assert_eq!(
            error.to_string(),
            "lock `k`: this task already holds it, and would wait for itself; `reentrant` makes a \
             section join one around it that has all its keys, with `permits` if it has them"
        );
        assert!(outer.is_held());
    });
    outer.await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(is_free(&redlock).await);
}

#[tokio::test(start_paused = true)]
async fn spawned_tasks_are_not_nested() {
    let redlock = redlock().await;
    let waits = redlock.clone();
    let outer = redlock.lock(KEY).hold(async |_| {
        let lock = reentrant(&waits).wait(NEVER);
        let task = tokio::spawn(async move { lock.acquire().await.unwrap().release().await });
        yield_now().await;
        (task,)
    });
    let (task,) = outer.await.unwrap();
    assert_eq!(task.await.unwrap(), Release::Released);
}

/// It polls the other tasks of its set within the poll of the body.
#[tokio::test(start_paused = true)]
async fn tasks_of_a_local_set_that_a_body_drives_are_not_nested() {
    let redlock = redlock().await;
    let local = LocalSet::new();
    let other = local.spawn_local({
        let attempt = reentrant(&redlock);
        async move { attempt.try_acquire().await.map(drop) }
    });
    let outer = redlock.lock(KEY).hold(async |_| {
        local
            .run_until(async {
                let own = spawn_local(reentrant(&redlock).try_acquire());
                let refused = own.await.unwrap().unwrap_err();
                assert!(matches!(refused, LockError::Contended(_)), "{refused}");
                let refused = other.await.unwrap().unwrap_err();
                assert!(matches!(refused, LockError::Contended(_)), "{refused}");
            })
            .await;
    });
    outer.await.unwrap();
}

// ---- ways out

#[tokio::test(start_paused = true)]
async fn a_body_that_is_dropped_or_panics_is_left() {
    let redlock = redlock().await;
    // Dropped in the middle, within a nested body.
    let entered = Notify::new();
    let inner = reentrant(&redlock).hold(async |_| {
        entered.notify_one();
        pending::<()>().await;
    });
    tokio::select! {
        ended = redlock.lock(KEY).hold(async |_| inner.await) => panic!("{ended:?}"),
        () = entered.notified() => {}
    }
    assert!(redlock.lock(KEY).wait(LEASE).acquire().await.is_ok());

    let outer = redlock.lock(KEY).hold(async |_| {
        let inner = reentrant(&redlock).hold(async |_| panic!("on purpose"));
        let ended: Result<Result<(), _>, _> = AssertUnwindSafe(inner).catch_unwind().await;
        assert!(ended.is_err());
        // Still under the outer lease, and under that alone.
        let error = redlock.lock(KEY).acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Nested(_)), "{error}");
    });
    outer.await.unwrap();
    let outer = redlock
        .lock(KEY)
        .hold(async |_| -> () { panic!("on purpose") });
    assert!(AssertUnwindSafe(outer).catch_unwind().await.is_err());
    assert!(redlock.lock(KEY).wait(LEASE).acquire().await.is_ok());
}

// ---- scopes

#[tokio::test(start_paused = true)]
async fn a_scope_carries_the_lease_into_a_task() {
    let redlock = redlock().await;
    let inner = reentrant(&redlock).hold(async |lease| lease.fencing_token().unwrap());
    let guard = redlock.lock(KEY).acquire().await.unwrap();
    let nested = guard.scope(redlock.lock(KEY).wait(NEVER).acquire()).await;
    let error = nested.unwrap().unwrap_err();
    assert!(matches!(error, LockError::Nested(_)), "{error}");
    // Outside of it nobody knows who has the guard.
    let error = redlock.lock(KEY).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Contended(_)), "{error}");
    let task = tokio::spawn(guard.scope(inner)).await.unwrap();
    assert_eq!(task.unwrap().unwrap(), guard.fencing_token().unwrap());
    assert_eq!(guard.release().await, Release::Released);
}

#[tokio::test(start_paused = true)]
async fn sections_in_scopes_of_several_tasks_are_not_kept_apart() {
    let redlock = redlock().await;
    let guard = redlock.lock(KEY).acquire().await.unwrap();
    let both_run = Arc::new(Barrier::new(2));
    let tasks = [(); 2].map(|()| {
        let (inner, both_run) = (reentrant(&redlock), Arc::clone(&both_run));
        let inner = inner.hold(async move |_| both_run.wait().await);
        tokio::spawn(guard.scope(inner))
    });
    for task in tasks {
        in_time(task).await.unwrap().unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_scope_ends_with_its_lease() {
    let redlock = redlock().await;
    let entered = Arc::new(Notify::new());
    let inside = |inner: Lock| {
        let entered = Arc::clone(&entered);
        async move {
            let inner = inner.hold(async |_| {
                entered.notify_one();
                pending::<()>().await;
            });
            inner.await
        }
    };
    // Released.
    let guard = redlock.lock(KEY).acquire().await.unwrap();
    let task = tokio::spawn(guard.scope(inside(reentrant(&redlock))));
    entered.notified().await;
    assert_eq!(guard.release().await, Release::Released);
    let ended = in_time(task).await.unwrap();
    assert!(matches!(ended, Err(LockError::Released(_))), "{ended:?}");
    // Expired.
    let guard = redlock.lock(KEY).expire(LEASE).acquire().await.unwrap();
    let task = tokio::spawn(guard.scope(inside(reentrant(&redlock))));
    entered.notified().await;
    let ended = task.await.unwrap();
    assert!(matches!(ended, Err(LockError::Expired(_))), "{ended:?}");
    assert_eq!(guard.release().await, Release::AlreadyExpired);
    // Before it was polled.
    let guard = redlock.lock(KEY).acquire().await.unwrap();
    let scope = guard.scope(async { unreachable!("its lease is over") });
    let lease = guard.lease();
    drop(guard);
    let ended = scope.await;
    assert!(matches!(ended, Err(LockError::Released(_))), "{ended:?}");
    let token = lease.fencing_token();
    assert!(matches!(token, Err(LockError::Released(_))), "{token:?}");
}

/// A joined section that is moved into another task, where no scope cuts it off.
#[tokio::test(start_paused = true)]
async fn a_joined_section_ends_with_its_lease_wherever_it_is() {
    let redlock = redlock().await;
    let of_inner = redlock.clone();
    let outer = redlock.lock(KEY).hold(async |_| {
        let mut inner = Box::pin(reentrant(&of_inner).hold(async |_| pending::<()>().await));
        assert!((&mut inner).now_or_never().is_none());
        let (began, begins) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut began = Some(began);
            poll_fn(move |context| {
                let ended = inner.as_mut().poll(context);
                if let Some(began) = began.take() {
                    began.send(()).unwrap();
                }
                ended
            })
            .await
        });
        begins.await.unwrap();
        let guard = reentrant(&of_inner).acquire().await.unwrap();
        (task, guard)
    });
    let (task, guard) = outer.await.unwrap();
    let ended = in_time(task).await.unwrap();
    assert!(matches!(ended, Err(LockError::Released(_))), "{ended:?}");
    assert!(!guard.is_held());
    let lost = in_time(guard.lost()).await;
    assert!(matches!(lost, LockError::Released(_)), "{lost}");
    assert_eq!(guard.release().await, Release::AlreadyExpired);
}

/// A task that watches a lock does not outlive it.
#[tokio::test(start_paused = true)]
async fn who_waits_for_the_end_of_a_lock_is_told_of_its_release() {
    let redlock = redlock().await;
    for is_dropped in [true, false] {
        let guard = redlock.lock(KEY).renew().acquire().await.unwrap();
        let (before, after) = (guard.lease(), guard.lease());
        let watcher = tokio::spawn(async move { before.lost().await });
        yield_now().await;
        match is_dropped {
            true => drop(guard),
            false => assert_eq!(guard.release().await, Release::Released),
        }
        for why in [in_time(watcher).await.unwrap(), in_time(after.lost()).await] {
            assert!(matches!(why, LockError::Released(_)), "{why}");
        }
    }
}

/// After its guard has let go, the lock is another one's to have, its own task included.
#[tokio::test(start_paused = true)]
async fn in_a_scope_whose_lock_was_released_the_lock_can_be_acquired() {
    let redlock = redlock().await;
    let guard = redlock.lock(KEY).acquire().await.unwrap();
    let lease = guard.lease();
    let scope = lease.scope(async {
        drop(guard);
        redlock.lock(KEY).acquire().now_or_never()
    });
    let again = scope.await.unwrap();
    assert!(
        !matches!(again, Some(Err(LockError::Nested(_)))),
        "{again:?}"
    );
}

/// Calls are logged with all their arguments by other crates' attributes.
#[tokio::test]
async fn what_is_an_argument_is_shown_in_few_words() {
    let redlock = redlock().await;
    let lock = redlock.lock("k");
    let shown = format!("{redlock:?} {lock:?}");
    assert!(shown.len() < 1_000, "{shown}");
    let guard = lock.acquire().await.unwrap();
    let shown = format!("{guard:?}");
    assert!(
        shown.starts_with("Guard(Lease { key: \"k\", remaining: "),
        "{shown}"
    );
    assert!(shown.len() < 70, "{shown}");
}
