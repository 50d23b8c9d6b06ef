//! Locks without async: where a thread may wait for one, and what becomes of it.

use std::{
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use futures_util::FutureExt;
use redlock_runtime::{Guard, Lock, LockError, ProblemKind, Redlock, Release};
use tokio::{
    runtime::{self, Handle, Runtime},
    task::{LocalSet, block_in_place, spawn_blocking},
};

const NEVER: Duration = Duration::from_secs(60);
const KEY: &str = "k";

fn current_thread() -> Runtime {
    let mut builder = runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

fn multi_thread() -> Runtime {
    let mut builder = runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}

/// With an engine on its own thread.
fn redlock(name: &str) -> Redlock {
    let builder = Redlock::builder().nodes([format!("memory://blocking-{name}")]);
    builder.expire(NEVER).build_blocking().unwrap()
}

fn is_free(redlock: &Redlock) -> bool {
    let attempt = redlock.lock(KEY);
    let attempted = thread::spawn(move || attempt.acquire_blocking().map(Guard::release_blocking));
    match attempted.join().unwrap() {
        Ok(release) => release == Release::Released,
        Err(LockError::Contended(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

/// What is the matter, if it is not allowed here.
fn refusal(lock: Lock) -> Option<ProblemKind> {
    match lock.hold_blocking(|lease| assert!(lease.is_held())) {
        Ok(()) => None,
        Err(LockError::Config(error)) => Some(error.problems()[0].kind),
        Err(error) => panic!("{error}"),
    }
}

// ---- the section

/// Threads work for each other. What one leaves to another is not forgotten, or this would not end.
#[test]
fn threads_that_ask_all_the_time_are_all_answered() {
    let redlock = redlock("threads");
    let inside = AtomicU32::new(0);
    let section = |key: &str, is_awaited| {
        let lock = redlock.lock(key).wait(NEVER);
        let guard = lock.acquire_blocking().unwrap();
        if key == KEY {
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
            inside.fetch_sub(1, Ordering::SeqCst);
        }
        match is_awaited {
            true => assert_eq!(guard.release_blocking(), Release::Released),
            false => drop(guard),
        }
    };
    thread::scope(|scope| {
        for number in 0..4 {
            let (section, own) = (&section, format!("own-{number}"));
            scope.spawn(move || {
                for round in 0..300 {
                    section(KEY, round % 3 == 0);
                    section(&own, round % 2 == 0);
                }
            });
        }
    });
}

#[test]
fn a_section_holds_the_lock_and_releases_it() {
    let redlock = redlock("section");
    let sum = redlock.lock(KEY).hold_blocking(|lease| {
        assert_eq!(lease.key(), KEY);
        assert!(lease.fencing_token().is_ok());
        assert!(!is_free(&redlock));
        1 + 1
    });
    assert_eq!(sum.unwrap(), 2);
    assert!(is_free(&redlock));

    let guard = redlock.lock(KEY).acquire_blocking().unwrap();
    assert!(!is_free(&redlock));
    assert_eq!(guard.release_blocking(), Release::Released);
    drop(redlock.lock(KEY).acquire_blocking().unwrap());
    assert!(is_free(&redlock));
}

#[test]
fn refusals_and_mistakes_are_those_of_async_code() {
    let redlock = redlock("refusals");
    let _guard = redlock.lock(KEY).acquire_blocking().unwrap();
    let waits = redlock.lock(KEY).wait(Duration::from_millis(1));
    let error = waits.hold_blocking(|_| unreachable!()).unwrap_err();
    assert!(matches!(error, LockError::Contended(_)), "{error}");
    let wrong = redlock.lock("other").expire(Duration::ZERO);
    let error = wrong.acquire_blocking().unwrap_err();
    assert!(matches!(error, LockError::Config(_)), "{error}");
    let error = redlock.lock("").acquire_blocking().unwrap_err();
    assert!(matches!(error, LockError::EmptyKey { .. }), "{error}");
    let waits = redlock.lock(KEY).wait(NEVER);
    let waits = thread::spawn(move || waits.acquire_blocking().unwrap_err());
    let sections = || current_thread().block_on(redlock.inspect(KEY)).sections;
    while sections().len() < 2 {}
    current_thread()
        .block_on(redlock.shutdown(Duration::ZERO))
        .unwrap_err();
    let later = redlock.lock("other").acquire_blocking().unwrap_err();
    for error in [waits.join().unwrap(), later] {
        assert!(matches!(error, LockError::Stopped(_)), "{error}");
    }
}

// ---- the lease

#[test]
fn what_the_body_returns_counts_though_the_lock_is_lost() {
    let redlock = redlock("lost");
    let brief = Duration::from_millis(100);
    let returned = redlock
        .lock(KEY)
        .expire(brief)
        .max_hold(brief)
        .hold_blocking(|lease| {
            assert!(redlock.current_lease(KEY).is_some());
            while lease.is_held() {
                thread::yield_now();
            }
            assert!(redlock.current_lease(KEY).is_none());
            let token = lease.fencing_token();
            assert!(matches!(token, Err(LockError::Expired(_))), "{token:?}");
            "done all the same"
        });
    assert_eq!(returned.unwrap(), "done all the same");
}

// ---- nesting

#[test]
fn a_nested_section_joins_or_fails_at_once() {
    let redlock = redlock("nested");
    let outer = redlock.lock(KEY).hold_blocking(|outer| {
        let inner = redlock.lock(KEY).reentrant();
        let inner = inner.hold_blocking(|lease| lease.fencing_token().unwrap());
        assert_eq!(inner.unwrap(), outer.fencing_token().unwrap());
        let guard = redlock.lock(KEY).reentrant().acquire_blocking().unwrap();
        assert_eq!(guard.release_blocking(), Release::Joined);
        let error = redlock
            .lock(KEY)
            .wait(NEVER)
            .acquire_blocking()
            .unwrap_err();
        assert!(matches!(error, LockError::Nested(_)), "{error}");
        assert!(!is_free(&redlock));
    });
    outer.unwrap();
    assert!(is_free(&redlock));
}

#[test]
fn async_code_within_a_blocking_section_is_nested_and_the_other_way_round() {
    let redlock = redlock("mixed");
    let runtime = multi_thread();
    let outer = redlock.lock(KEY).hold_blocking(|_| {
        let inner = redlock.lock(KEY).reentrant();
        runtime.block_on(inner.hold(async |lease| lease.is_held()))
    });
    assert!(outer.unwrap().unwrap());
    let of_task = redlock.clone();
    let outer = async move {
        let held = of_task.lock(KEY).hold(async |_| {
            let inner = of_task.lock(KEY).reentrant();
            block_in_place(|| inner.hold_blocking(|lease| lease.is_held()))
        });
        held.await
    };
    assert!(
        runtime
            .block_on(runtime.spawn(outer))
            .unwrap()
            .unwrap()
            .unwrap()
    );
}

#[test]
fn a_section_that_joins_does_not_renew() {
    let redlock = redlock("joins");
    let brief = Duration::from_millis(100);
    let outer = redlock.lock(KEY).expire(brief).hold(async |_| {
        let inner = redlock.lock(KEY).reentrant().max_hold(NEVER);
        let inner = block_in_place(|| {
            inner.hold_blocking(|lease| {
                while lease.is_held() {
                    thread::yield_now();
                }
            })
        });
        inner.unwrap();
        std::future::pending::<()>().await;
    });
    let ended = multi_thread().block_on(outer);
    assert!(matches!(ended, Err(LockError::Expired(_))), "{ended:?}");
}

/// The lock is held while `hold` has the body made.
#[test]
fn what_makes_an_async_body_is_nested() {
    let redlock = redlock("makes");
    let (tells, told) = mpsc::channel();
    let outer = redlock.lock(KEY).hold(|_| {
        let inner = redlock.lock(KEY).wait(NEVER).acquire_blocking();
        tells.send(inner.unwrap_err()).unwrap();
        std::future::ready(())
    });
    let mut outer = std::pin::pin!(outer);
    // Under no runtime, which would not let it block.
    while outer.as_mut().now_or_never().is_none() {
        thread::yield_now();
    }
    let error = told.recv().unwrap();
    assert!(matches!(error, LockError::Nested(_)), "{error}");
}

// ---- where it is allowed

#[test]
fn threads_that_no_runtime_drives_may_block() {
    let redlock = redlock("threads");
    let (runtime, single) = (multi_thread(), current_thread());
    let lock = || redlock.lock(KEY).wait(NEVER);
    assert_eq!(refusal(lock()), None);
    {
        let _entered = runtime.enter();
        assert_eq!(refusal(lock()), None);
        let _entered = single.enter();
        assert_eq!(refusal(lock()), None);
    }
    for runtime in [&runtime, &single] {
        let in_pool = lock();
        let refused = runtime.block_on(async { spawn_blocking(|| refusal(in_pool)).await });
        assert_eq!(refused.unwrap(), None);
    }
    let in_place = lock();
    let task = runtime.spawn(async { block_in_place(|| refusal(in_place)) });
    assert_eq!(runtime.block_on(task).unwrap(), None);
    let in_place = lock();
    let refused = runtime.block_on(async { block_in_place(|| refusal(in_place)) });
    assert_eq!(refused, None);
    // After a task is before a task.
    assert_eq!(refusal(lock()), None);
}

#[test]
fn threads_that_poll_a_task_may_not() {
    let redlock = redlock("tasks");
    let lock = || redlock.lock(KEY);
    let blocks = Some(ProblemKind::BlocksRuntime);
    for runtime in [multi_thread(), current_thread()] {
        assert_eq!(runtime.block_on(async { refusal(lock()) }), blocks);
        let spawned = lock();
        let task = runtime.spawn(async { refusal(spawned) });
        assert_eq!(runtime.block_on(task).unwrap(), blocks);
        let local = LocalSet::new();
        let spawned = lock();
        let task = local.spawn_local(async { refusal(spawned) });
        assert_eq!(local.block_on(&runtime, task).unwrap(), blocks);
        // A pool's thread that drives a future is as good as any that does.
        let pooled = lock();
        let drives = || Handle::current().block_on(async { refusal(pooled) });
        let refused = runtime.block_on(async { spawn_blocking(drives).await });
        assert_eq!(refused.unwrap(), blocks);
        // Nothing of it is left.
        runtime.block_on(async {
            assert_eq!(refusal(lock()), blocks);
            let guard = lock().wait(NEVER).acquire().await.unwrap();
            assert_eq!(guard.release().await, Release::Released);
            let guard = lock().acquire().await.unwrap();
            assert_eq!(guard.release_blocking(), Release::Unknown);
            let outer = lock().wait(NEVER).hold(async |_| {
                let guard = lock().reentrant().acquire().await.unwrap();
                guard.release_blocking()
            });
            assert_eq!(outer.await.unwrap(), Release::Joined);
        });
        assert_eq!(refusal(lock().wait(NEVER)), None);
    }
}

#[cfg(feature = "test-util")]
#[test]
fn an_engine_on_a_runtime_answers_if_that_has_a_thread_of_its_own() {
    let several = multi_thread();
    let on_several = several.block_on(async { Redlock::test() });
    assert_eq!(refusal(on_several.lock(KEY)), None);
    let in_pool = on_several.lock(KEY).wait(NEVER);
    let refused = several.block_on(async { spawn_blocking(|| refusal(in_pool)).await });
    assert_eq!(refused.unwrap(), None);

    let single = current_thread();
    let on_single = single.block_on(async { Redlock::test() });
    let refused = refusal(on_single.lock(KEY));
    assert_eq!(refused, Some(ProblemKind::BlocksRuntime));
    let guard = single.block_on(on_single.lock(KEY).acquire()).unwrap();
    assert_eq!(guard.release_blocking(), Release::Unknown);
}

/// As the guide says of tests.
#[cfg(feature = "test-util")]
#[tokio::test(flavor = "multi_thread")]
async fn a_node_set_for_tests_works_in_place() {
    #[redlock_runtime::redis_lock(key = "k")]
    fn section() -> Result<(), LockError> {
        Ok(())
    }
    let redlock = Redlock::test();
    let _entered = redlock.enter();
    block_in_place(section).unwrap();
    redlock.assert_lock_count(KEY, 1);
    redlock.assert_not_held(KEY);
}

#[test]
fn other_executors_only_block_their_thread() {
    let redlock = redlock("executors");
    let (tells, told) = mpsc::channel();
    let lock = redlock.lock(KEY);
    let polls = thread::spawn(move || {
        let refused = async { refusal(lock) };
        let waker = std::task::Waker::noop();
        let polled = std::pin::pin!(refused).poll(&mut std::task::Context::from_waker(waker));
        tells.send(polled.is_ready()).unwrap();
    });
    polls.join().unwrap();
    assert!(told.recv().unwrap());
}

/// Not even those of a runtime that has stopped are needed.
#[test]
fn code_that_no_runtime_drives_waits_until_a_majority_votes_or_in_vain() {
    let votes = redlock("ready");
    let down = Redlock::builder().nodes(["redis://127.0.0.1:1"]);
    let down = current_thread().block_on(down.require_quorum(false).build());
    let down = down.unwrap();
    for (redlock, is_ready) in [(&votes, true), (&down, false)] {
        for timeout in [Duration::ZERO, Duration::from_millis(1)] {
            let mut ready = std::pin::pin!(redlock.ready(timeout));
            let ended = loop {
                if let Some(ended) = ready.as_mut().now_or_never() {
                    break ended;
                }
                thread::yield_now();
            };
            assert_eq!(ended.is_ok(), is_ready);
        }
    }
}
