//! The limits that the attribute's documentation names, those that compile. The others are in `ui`:
//! `item`, `key_pattern_in_async_trait`, and `dotted_unknown` of `key`. That `cargo build` checks what
//! `cargo check` does not is in `ui.rs`.

use redlock_runtime::{LockError, redis_lock};

use super::support::{assert_held, assert_released, install};

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

macro_rules! chain {
    ($($function:ident $key:literal awaits $next:ident)*) => {$(
        #[redis_lock(key = $key)]
        async fn $function(depth: usize) -> Result<usize, LockError> {
            $next(depth + 1).await
        }
    )*};
}

chain! {
    chain_1 "limits:chain:1" awaits chain_2
    chain_2 "limits:chain:2" awaits chain_3
    chain_3 "limits:chain:3" awaits chain_4
    chain_4 "limits:chain:4" awaits chain_5
    chain_5 "limits:chain:5" awaits chain_6
    chain_6 "limits:chain:6" awaits chain_7
    chain_7 "limits:chain:7" awaits chain_8
    chain_8 "limits:chain:8" awaits chain_9
    chain_9 "limits:chain:9" awaits chain_10
    chain_10 "limits:chain:10" awaits chain_11
    chain_11 "limits:chain:11" awaits chain_12
    chain_12 "limits:chain:12" awaits chain_13
    chain_13 "limits:chain:13" awaits chain_14
}

#[redis_lock(key = "limits:chain:14")]
async fn chain_14(depth: usize) -> Result<usize, LockError> {
    assert_held("limits:chain:1").await;
    Ok(depth)
}

/// That it compiles is what counts: this crate has the default recursion limit.
#[tokio::test]
async fn fourteen_annotated_functions_await_each_other() {
    install().await;
    assert_eq!(tokio::spawn(chain_1(1)).await.unwrap().unwrap(), 14);
}

#[redis_lock(key = "limits:second:{from}", lease = second)]
#[redis_lock(key = "limits:first:{to}", lease = first)]
async fn two_locks(from: u8, to: u8) -> Result<(u8, u8), LockError> {
    assert_held("limits:first:2").await;
    assert_held("limits:second:1").await;
    assert!(first.is_held() && second.is_held());
    Ok((from, to))
}

#[tokio::test]
async fn a_second_attribute_takes_a_second_lock_after_the_one_below_it() {
    let redlock = install().await;
    assert_eq!(two_locks(1, 2).await.unwrap(), (1, 2));
    assert_released("limits:first:2").await;
    assert_released("limits:second:1").await;
    let _first = redlock.lock("limits:first:2").acquire().await.unwrap();
    let refused = two_locks(1, 2).await.unwrap_err();
    assert_eq!(refused.key(), Some("limits:first:2"), "{refused}");
}
