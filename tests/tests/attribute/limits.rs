//! The limits that the attribute's documentation names, those that compile. The others are in `ui`:
//! `item_never_returns`, `item_const_fn`, `item_future_by_hand`, `key_pattern_in_async_trait`,
//! `key_dotted_unknown`.

use std::time::Duration;

use redlock_runtime::{LockError, redis_lock};

use super::support::{assert_held, install};

#[redis_lock(key = "limits:again:{n}")]
async fn again(n: u8) -> Result<(), LockError> {
    assert_held("limits:again:1").await;
    Box::pin(again(n)).await
}

#[tokio::test]
async fn locks_are_not_reentrant() {
    install().await;
    let refused = again(1).await;
    assert!(matches!(refused, Err(LockError::Contended(_))));
}

#[redis_lock(key = "limits:{n:.1}", guard = lease)]
async fn rounded(n: f64) -> Result<String, LockError> {
    let _ = n;
    Ok(lease.key().to_owned())
}

#[tokio::test]
async fn a_precision_can_make_one_key_of_two_values() {
    install().await;
    assert_eq!(rounded(1.21).await.unwrap(), rounded(1.22).await.unwrap());
}

struct Job;

impl Job {
    const LEASE: Duration = Duration::ZERO;

    /// That its lease is zero is an error of `cargo build`, if something calls it.
    #[expect(dead_code, reason = "calling it does not compile")]
    #[redis_lock(key = "limits:job", expire = Self::LEASE)]
    async fn run() -> Result<(), LockError> {
        Ok(())
    }
}
