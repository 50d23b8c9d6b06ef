//! What callers write: one result, options for many keys, errors that say what to set, and no async at all.

use std::time::Duration;

use redlock_runtime::{ConfigError, LockError, ProblemKind, Redlock};

use crate::redlock;

#[derive(Debug, PartialEq)]
enum AppError {
    OutOfStock,
    Busy,
}

impl From<LockError> for AppError {
    fn from(_: LockError) -> Self {
        Self::Busy
    }
}

async fn reserve(redlock: &Redlock, left: u32) -> Result<u32, AppError> {
    let lock = redlock.lock("stock");
    let reserve = lock.hold_result(async |lease| {
        lease.fencing_token()?;
        left.checked_sub(1).ok_or(AppError::OutOfStock)
    });
    reserve.await
}

#[tokio::test]
async fn a_body_that_returns_a_result_has_one_result() {
    let redlock = redlock().await;
    assert_eq!(reserve(&redlock, 3).await, Ok(2));
    assert_eq!(reserve(&redlock, 0).await, Err(AppError::OutOfStock));
    let guard = redlock.lock("stock").acquire().await.unwrap();
    assert_eq!(reserve(&redlock, 3).await, Err(AppError::Busy));
    drop(guard);
}

#[tokio::test]
async fn options_that_are_kept_serve_many_keys() {
    let redlock = redlock().await;
    let readers = redlock.lock("").name("pages").shared();
    let pages = [1, 2].map(|page| readers.key(format!("page:{page}")));
    for page in &pages {
        let (one, another) = (page.acquire().await.unwrap(), page.acquire().await.unwrap());
        assert_eq!(one.key(), another.key());
    }
    let _writer = redlock.lock("page:1").acquire().await.unwrap();
    let error = pages[0].acquire().await.unwrap_err();
    assert_eq!(
        error.report().and_then(|report| report.name()),
        Some("pages")
    );
    assert!(pages[1].acquire().await.is_ok());
}

#[tokio::test]
async fn a_call_that_does_not_wait_is_told_of_wait() {
    let redlock = redlock().await;
    let lock = redlock.lock("k");
    let _guard = lock.acquire().await.unwrap();
    let error = lock.acquire().await.unwrap_err();
    assert!(error.to_string().contains("with `wait`"), "{error}");
    let error = lock
        .wait(Duration::from_millis(1))
        .acquire()
        .await
        .unwrap_err();
    assert!(error.to_string().contains("(waited "), "{error}");
}

fn is_refused(error: &ConfigError) -> bool {
    error.problems()[0].kind == ProblemKind::BlocksRuntime
}

#[test]
fn a_program_without_async_makes_its_node_set() {
    let builder = || Redlock::builder().nodes(["memory://calls-without-async"]);
    let redlock = builder().build_blocking().unwrap();
    assert_eq!(redlock.lock("k").hold_blocking(|_| 5).unwrap(), 5);

    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    let in_task = async || builder().build_blocking().unwrap_err();
    assert!(is_refused(&runtime.block_on(in_task())));
    let in_task = async || builder().install_blocking().unwrap_err();
    assert!(is_refused(&runtime.block_on(in_task())));

    let installed = builder().install_blocking().unwrap();
    assert_eq!(installed.lock("k").hold_blocking(|_| 6).unwrap(), 6);
}
