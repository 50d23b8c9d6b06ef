//! Return types: coercions, `?` on several error types, borrowed, opaque, aliased, none.

use std::fmt::Display;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use super::support::{assert_all_released, assert_held, install, was_seen_held};
use redlock_runtime::{LockError, redis_lock};

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Number(#[from] std::num::ParseIntError),
    #[error(transparent)]
    Text(#[from] std::str::Utf8Error),
}

#[redis_lock(key = "three")]
async fn three_errors(bytes: &[u8]) -> Result<u8, Error> {
    assert_held("three").await;
    let text = std::str::from_utf8(bytes)?;
    let number = text.parse()?;
    Err(LockError::clone(&no_lock().await))?;
    Ok(number)
}

async fn no_lock() -> LockError {
    install()
        .await
        .lock("three")
        .try_acquire()
        .await
        .unwrap_err()
}

#[redis_lock(key = "anyhow")]
async fn anyhow(text: &str) -> anyhow::Result<u8> {
    assert_held("anyhow").await;
    if text.is_empty() {
        anyhow::bail!("empty");
    }
    Ok(text.parse()?)
}

struct Holder(String);
impl Holder {
    #[redis_lock(key = "borrowed:{self.0}")]
    async fn borrowed(&self, _other: &str) -> Result<std::borrow::Cow<'_, str>, LockError> {
        assert_held("borrowed:h").await;
        Ok(self.0.as_str().into())
    }

    #[redis_lock(key = "named-lifetime")]
    async fn named<'a>(&self, other: &'a mut Vec<u8>) -> Result<&'a mut u8, LockError> {
        assert_held("named-lifetime").await;
        other.push(1);
        Ok(other.last_mut().unwrap())
    }
}

trait Shape {}
struct Round;
impl Shape for Round {}

#[redis_lock(key = "coerced")]
async fn coerced() -> Result<Box<dyn Shape + Send>, LockError> {
    assert_held("coerced").await;
    Ok(Box::new(Round))
}

#[redis_lock(key = "coerced-fn", on_error = |_| Box::new(|n| n))]
async fn coerced_fn(add: u8) -> Box<dyn Fn(u8) -> u8> {
    assert_held("coerced-fn").await;
    Box::new(move |n| n + add)
}

#[redis_lock(key = "fn-pointer", on_error = |_| |n| n)]
async fn fn_pointer() -> fn(u8) -> u8 {
    assert_held("fn-pointer").await;
    |n| n + 1
}

#[redis_lock(key = "shadowed-names")]
async fn shadowed_names(n: u8) -> Result<Option<u8>, Error> {
    #[allow(dead_code)]
    enum Option<T> {
        Yes(T),
    }
    #[allow(dead_code)]
    struct Error;
    let Option::Yes(n) = Option::Yes(n);
    assert_held("shadowed-names").await;
    Ok(Some(n))
}

static NOT_EMPTY: AtomicBool = AtomicBool::new(false);

#[redis_lock(key = "empty", on_error = |_| NOT_EMPTY.store(true, Ordering::Relaxed))]
async fn empty() {}

#[redis_lock(key = "option", on_error = |_| None)]
async fn option(n: u8) -> Option<u8> {
    assert_held("option").await;
    let half = n.checked_div(2)?;
    Some(half)
}

#[redis_lock(key = "diverges")]
async fn diverges() -> Result<std::convert::Infallible, LockError> {
    assert_held("diverges").await;
    Err(no_lock_on("diverges").await)
}

async fn no_lock_on(key: &str) -> LockError {
    install().await.lock(key).try_acquire().await.unwrap_err()
}

#[redis_lock(key = "infallible", on_error = |error| panic!("{error}"))]
async fn infallible() -> std::convert::Infallible {
    assert_held("infallible").await;
    std::future::pending().await
}

#[redis_lock(key = "tuple", on_error = |error| (0, Err(error.into())))]
async fn tuple() -> (u8, Result<impl Display, Error>) {
    assert_held("tuple").await;
    (1, Ok("yes"))
}

#[tokio::test]
async fn every_return_type() {
    install().await;
    assert!(matches!(three_errors(b"x").await, Err(Error::Number(_))));
    assert!(matches!(three_errors(b"\xff").await, Err(Error::Text(_))));
    assert!(matches!(three_errors(b"1").await, Err(Error::Lock(_))));
    assert_eq!(anyhow("1").await.unwrap(), 1);
    assert!(anyhow("").await.is_err());
    let holder = Holder("h".to_owned());
    assert_eq!(holder.borrowed("").await.unwrap(), "h");
    assert_eq!(holder.named(&mut vec![]).await.unwrap(), &1);
    drop(coerced().await.unwrap());
    assert_eq!(coerced_fn(1).await(1), 2);
    assert_eq!(fn_pointer().await(1), 2);
    assert_eq!(shadowed_names(1).await.unwrap(), Some(1));
    empty().await;
    assert!(!NOT_EMPTY.load(Ordering::Relaxed));
    let other = install().await.lock("empty").acquire().await.unwrap();
    empty().await;
    assert!(NOT_EMPTY.load(Ordering::Relaxed));
    drop(other);
    assert_eq!(option(4).await, Some(2));
    assert!(diverges().await.is_err());
    assert_eq!(tuple().await.0, 1);
    assert_all_released().await;
}

#[tokio::test]
async fn functions_that_do_not_return() {
    install().await;
    tokio::select! {
        biased;
        never = pin!(infallible()) => match never {},
        () = async {
            while !was_seen_held("infallible") {
                tokio::task::yield_now().await;
            }
        } => {}
    }
    assert_all_released().await;
}
