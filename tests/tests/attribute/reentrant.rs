//! Functions that call each other with one key.

use redlock_runtime::{FencingToken, LockError, redis_lock};

use super::support::{assert_all_released, assert_held, install};

#[redis_lock(key = "reentrant:{id}", reentrant, lease = lease, name = "deposit")]
async fn deposit(id: u64) -> Result<FencingToken, LockError> {
    assert_held("reentrant:1").await;
    lease.fencing_token()
}

#[redis_lock(key = "reentrant:{id}", lease = lease)]
async fn deposit_twice(id: u64) -> Result<(), LockError> {
    let (one, two) = tokio::join!(deposit(id), deposit(id));
    let token = lease.fencing_token()?;
    assert_eq!((one?, two?), (token, token));
    assert_ne!(deposit(2).await?, token);
    Ok(())
}

#[tokio::test]
async fn a_call_joins() {
    install().await;
    deposit(1).await.unwrap();
    deposit_twice(1).await.unwrap();
    assert_all_released().await;
}

#[redis_lock(key = "reentrant:named", name = "inner")]
async fn inner() -> Result<(), LockError> {
    unreachable!("it cannot have the lock")
}

#[redis_lock(key = "reentrant:named", when_held = Ok(()))]
async fn outer() -> Result<(), LockError> {
    inner().await
}

#[redis_lock(key = "reentrant:named", when_held = Err("another has it"), on_error = |error| {
    assert!(matches!(error, LockError::Nested(_)), "{error}");
    Err("this task has it")
})]
async fn is_told_apart() -> Result<(), &'static str> {
    Box::pin(is_told_apart()).await
}

#[tokio::test]
async fn both_functions_are_named() {
    install().await;
    let error = outer().await.unwrap_err();
    let report = error.report().unwrap();
    assert_eq!(report.name(), Some("inner"));
    assert_eq!(
        report.outer_name(),
        Some(concat!(module_path!(), "::outer"))
    );
    assert_eq!(
        error.to_string(),
        concat!(
            "lock `reentrant:named` of `inner`: this task already holds it in `",
            module_path!(),
            "::outer`, and would wait for itself; `reentrant` makes a section join one around it that \
             has all its keys, with `permits` if it has them"
        )
    );
    assert_eq!(is_told_apart().await, Err("this task has it"));
}
