//! What may cross threads, and that futures stay `Send`: a change there breaks users' builds.

use std::time::Duration;

use redlock_runtime::{
    Builder, ConfigError, Election, Guard, Installed, Leader, Leadership, Lease, Lock, LockError,
    NodeState, NodeStatus, NodeVerdict, Observation, Redlock, Release, Report, ShutdownError,
    Verdict,
};

fn shared<T: Send + Sync + 'static>() {}
fn unwind_safe<T: std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}
fn error<T: std::error::Error>() {}
fn send<T: Send>(_: &T) {}

/// All of a tuple do if it does.
#[test]
fn types_cross_threads() {
    shared::<(Builder, Redlock, Installed, ConfigError, ShutdownError)>();
    shared::<(Lock, Guard, Lease, LockError, Report, Release)>();
    shared::<(Election, Leadership, Observation, Leader)>();
    shared::<(NodeStatus, NodeState, NodeVerdict, Verdict)>();
}

#[test]
fn errors_are_errors_and_may_pass_a_catch_unwind() {
    error::<LockError>();
    error::<ConfigError>();
    error::<ShutdownError>();
    unwind_safe::<LockError>();
}

#[test]
fn an_error_is_cheap_to_return() {
    assert!(size_of::<LockError>() <= 4 * size_of::<usize>());
}

#[tokio::test]
async fn futures_are_send() {
    let redlock = crate::redlock().await;
    send(&Redlock::builder().build());
    send(&Redlock::builder().install());
    send(&redlock.lock("k").acquire());
    send(&redlock.lock("k").try_acquire());
    send(&redlock.lock("k").hold(async |_| 1));
    let lock = redlock.lock("k");
    send(&lock.hold(|lease| async move { lease.is_held() }));
    let election = redlock.leader("k");
    send(&election.campaign());
    send(&election.run(|lease| async move { lease.is_held() }));
    let guard = redlock.lock("k").acquire().await.unwrap();
    send(&guard.extend());
    send(&guard.extend_to(Duration::ZERO));
    send(&guard.lost());
    send(&guard.scope(async {}));
    send(&guard.release());
    send(&redlock.shutdown(Duration::ZERO));
}
