//! Comes to the end of `main` while the lock is held, in the way that the argument names.

use std::{env, error::Error, future::pending, io, time::Duration};

use redlock_runtime::{ConfigError, Installed, LockError, Redlock, redis_lock};
use tokio::sync::oneshot;

fn main() -> Result<(), Box<dyn Error>> {
    match env::args().nth(1).as_deref() {
        Some("guard-on-multi-thread") => guard_on_multi_thread(),
        Some("guard-on-current-thread") => guard_on_current_thread(),
        Some("task-on-multi-thread") => task_on_multi_thread(),
        Some("task-on-current-thread") => task_on_current_thread(),
        Some("panic") => panic_with_guard(),
        other => Err(format!("no such way: {other:?}").into()),
    }
}

#[tokio::main]
async fn guard_on_multi_thread() -> Result<(), Box<dyn Error>> {
    let redlock = install().await?;
    let _guard = redlock.lock("job").acquire().await?;
    wait_for_the_end();
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn guard_on_current_thread() -> Result<(), Box<dyn Error>> {
    let redlock = install().await?;
    let _guard = redlock.lock("job").acquire().await?;
    wait_for_the_end();
    Ok(())
}

#[tokio::main]
async fn task_on_multi_thread() -> Result<(), Box<dyn Error>> {
    let _redlock = install().await?;
    let (begun, has_begun) = oneshot::channel();
    tokio::spawn(hang(begun));
    has_begun.await?;
    wait_for_the_end();
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn task_on_current_thread() -> Result<(), Box<dyn Error>> {
    let _redlock = install().await?;
    let (begun, has_begun) = oneshot::channel();
    tokio::spawn(hang(begun));
    has_begun.await?;
    wait_for_the_end();
    Ok(())
}

#[tokio::main]
async fn panic_with_guard() -> Result<(), Box<dyn Error>> {
    let redlock = install().await?;
    let _guard = redlock.lock("job").acquire().await?;
    wait_for_the_end();
    panic!("on purpose");
}

#[redis_lock(key = "job")]
async fn hang(begun: oneshot::Sender<()>) -> Result<(), LockError> {
    // A test that has given up does not listen.
    let _ = begun.send(());
    pending().await
}

/// Times that no busy machine exceeds.
async fn install() -> Result<Installed, ConfigError> {
    const MINUTE: Duration = Duration::from_secs(60);
    let nodes = Redlock::builder().expire(MINUTE).node_timeout(MINUTE);
    nodes.install().await
}

/// Tells the test that the lock is held, and returns when it wants `main` to end.
fn wait_for_the_end() {
    println!("held");
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
}
