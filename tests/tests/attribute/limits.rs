//! The limits that the attribute's documentation names, those that compile. The others are in `ui`:
//! `item_never_returns`, `item_const_fn`, `item_future_by_hand`, `key_pattern_in_async_trait`,
//! `key_dotted_unknown`. That `cargo build` checks what `cargo check` does not is in `ui.rs`.

use std::{fmt, time::Duration};

use redlock_runtime::{LockError, redis_lock};

use super::support::{assert_held, assert_released, install};

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

#[redis_lock(key = "limits:other:{n}")]
async fn other_key(n: u8) -> Result<u8, LockError> {
    match n.checked_sub(1) {
        Some(less) => Ok(Box::pin(other_key(less)).await? + 1),
        None => Ok(0),
    }
}

#[tokio::test]
async fn a_body_may_call_its_own_function_with_another_key() {
    install().await;
    assert_eq!(other_key(2).await.unwrap(), 2);
}

/// Its changes are seen by others once it is committed, and not before.
struct Transaction {
    is_open: bool,
}

#[redis_lock(key = "limits:transaction")]
async fn within(transaction: &mut Transaction) -> Result<(), LockError> {
    assert_held("limits:transaction").await;
    assert!(transaction.is_open);
    Ok(())
}

#[tokio::test]
async fn a_transaction_from_outside_is_committed_after_the_release() {
    install().await;
    let mut transaction = Transaction { is_open: true };
    within(&mut transaction).await.unwrap();
    assert_released("limits:transaction").await;
    assert!(transaction.is_open, "to be committed now");
}

#[redis_lock(key = "limits:{n:.1}", lease = lease)]
async fn rounded(n: f64) -> Result<String, LockError> {
    let _ = n;
    Ok(lease.key().to_owned())
}

#[tokio::test]
async fn a_precision_can_make_one_key_of_two_values() {
    install().await;
    assert_eq!(rounded(1.21).await.unwrap(), rounded(1.22).await.unwrap());
}

/// Displays but one of its two parts.
struct Versioned {
    name: &'static str,
    version: u8,
}

impl fmt::Display for Versioned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[redis_lock(key = "limits:{of}", lease = lease)]
async fn displayed(of: Versioned) -> Result<(String, u8), LockError> {
    Ok((lease.key().to_owned(), of.version))
}

#[tokio::test]
async fn a_display_can_make_one_key_of_two_values() {
    install().await;
    let [(first, 1), (second, 2)] = [
        displayed(Versioned {
            name: "a",
            version: 1,
        })
        .await
        .unwrap(),
        displayed(Versioned {
            name: "a",
            version: 2,
        })
        .await
        .unwrap(),
    ] else {
        panic!("the values are the same");
    };
    assert_eq!(first, second);
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
