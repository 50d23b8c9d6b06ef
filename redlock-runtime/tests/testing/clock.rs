//! Leases and the test go by one clock, or it is an error.

use redlock_runtime::{
    Builder, ConfigError, LockError, ProblemKind, Redlock, testing::Acquisition,
};
use tokio::{
    runtime::{self, Runtime},
    time::{Instant, pause, sleep},
};

use crate::seconds;

fn memory(name: &str) -> Builder {
    Redlock::builder().nodes([format!("memory://clock-test-{name}")])
}

#[tokio::test(start_paused = true)]
async fn memory_nodes_follow_a_paused_clock_by_themselves() {
    let redlock = memory("follows").build().await.unwrap();
    let start = Instant::now();
    let hold = redlock
        .lock("k")
        .hold(async |_| sleep(seconds(3_600)).await);
    assert!(matches!(hold.await, Err(LockError::Expired(_))));
    assert_eq!(start.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn servers_and_a_paused_clock_are_refused() {
    let builder = Redlock::builder().nodes(["redis://127.0.0.1:1"]);
    let error = builder.build().await.unwrap_err();
    assert!(is_paused(&error), "{error}");
    assert!(error.to_string().contains("`Redlock::test()`"), "{error}");
}

fn paused() -> Runtime {
    let mut builder = runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

fn is_paused(error: &ConfigError) -> bool {
    matches!(error.problems(), [problem] if problem.kind == ProblemKind::PausedClock)
}

fn is_about_the_clock<T>(outcome: &Result<T, LockError>) -> bool {
    let Err(LockError::Config(error)) = outcome else {
        return false;
    };
    is_paused(error)
}

#[tokio::test]
async fn a_clock_that_is_paused_too_late_is_found_out() {
    let redlock = memory("late").build().await.unwrap();
    let hold = redlock.lock("k").hold(async |_| {
        pause();
        sleep(seconds(3_600)).await;
    });
    assert!(is_about_the_clock(&hold.await));
    assert!(is_about_the_clock(&redlock.lock("k").acquire().await));
    tokio::time::resume();
    drop(redlock.lock("k").acquire().await.unwrap());

    // This one follows.
    let redlock = Redlock::test();
    pause();
    let hold = redlock
        .lock("k")
        .hold(async |_| sleep(seconds(3_600)).await);
    assert!(matches!(hold.await, Err(LockError::Expired(_))));
}

/// Contention, back-off and faults: the same course in every run.
#[test]
fn what_happens_in_paused_time_is_the_same_each_time() {
    let run = || -> Vec<Acquisition> {
        paused().block_on(async {
            let redlock = Redlock::builder().test(5).unwrap();
            redlock.node(1).slow(seconds(1) / 50);
            let other = redlock.held_elsewhere("k").expires_in(seconds(1));
            let tasks: Vec<_> = (0..10)
                .map(|task| {
                    let lock = redlock.lock(format!("k{}", task % 3).replace('0', ""));
                    let lock = lock.wait(seconds(30)).renew();
                    tokio::spawn(lock.hold(async move |_| sleep(seconds(task)).await))
                })
                .collect();
            sleep(seconds(2)).await;
            drop(other);
            redlock.node(0).restart();
            for task in tasks {
                task.await.unwrap().unwrap();
            }
            redlock.history()
        })
    };
    let first = run();
    assert_eq!(first.len(), 10);
    for _ in 0..3 {
        assert_eq!(run(), first);
    }
}
