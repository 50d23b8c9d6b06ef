//! The functions that are compared: each body with the attribute, and plain; the one whose time is
//! measured also with the same lock written by hand.

use redlock_runtime::{LockError, redis_lock};
use tokio::task::yield_now;

use crate::redlock;

type Result<T> = std::result::Result<T, LockError>;

/// Not `Copy`, so that it moves as most arguments do.
pub(crate) struct Kilobyte(pub(crate) [u8; 1024]);

/// No arguments: what the lock takes by itself.
pub(crate) mod nothing {
    use super::*;

    #[redis_lock(key = "nothing")]
    pub(crate) async fn annotated() -> Result<u64> {
        yield_now().await;
        Ok(1)
    }

    pub(crate) async fn plain() -> Result<u64> {
        yield_now().await;
        Ok(1)
    }
}

/// A large argument that the body uses after an `await`.
pub(crate) mod argument {
    use super::*;

    #[redis_lock(key = "argument")]
    pub(crate) async fn annotated(kilobyte: Kilobyte) -> Result<u64> {
        yield_now().await;
        Ok(kilobyte.0[0].into())
    }

    pub(crate) async fn plain(kilobyte: Kilobyte) -> Result<u64> {
        yield_now().await;
        Ok(kilobyte.0[0].into())
    }
}

/// A large argument that is gone before the first `await`.
pub(crate) mod spent_argument {
    use super::*;

    #[redis_lock(key = "spent")]
    pub(crate) async fn annotated(kilobyte: Kilobyte) -> Result<u64> {
        let first = first(kilobyte);
        yield_now().await;
        Ok(first)
    }

    pub(crate) async fn plain(kilobyte: Kilobyte) -> Result<u64> {
        let first = first(kilobyte);
        yield_now().await;
        Ok(first)
    }

    fn first(kilobyte: Kilobyte) -> u64 {
        kilobyte.0[0].into()
    }
}

/// A large local that lives across an `await`.
pub(crate) mod local {
    use super::*;

    #[redis_lock(key = "local")]
    pub(crate) async fn annotated() -> Result<u64> {
        let kilobyte = Kilobyte([1; 1024]);
        yield_now().await;
        Ok(kilobyte.0[0].into())
    }

    pub(crate) async fn plain() -> Result<u64> {
        let kilobyte = Kilobyte([1; 1024]);
        yield_now().await;
        Ok(kilobyte.0[0].into())
    }
}

/// An argument that owns memory and is part of the key.
pub(crate) mod string {
    use super::*;

    #[redis_lock(key = "string:{name}")]
    pub(crate) async fn annotated(name: String) -> Result<usize> {
        yield_now().await;
        Ok(name.len())
    }

    pub(crate) async fn plain(name: String) -> Result<usize> {
        yield_now().await;
        Ok(name.len())
    }
}

/// A body that is polled `yields + 1` times, and nothing else.
pub(crate) mod yielding {
    use super::*;
    use crate::polls::Yields;

    #[redis_lock(key = "yields:{key}")]
    pub(crate) async fn annotated(key: u64, yields: Yields<'_>) -> Result<u64> {
        yields.await;
        Ok(key)
    }

    pub(crate) async fn hold(key: u64, yields: Yields<'_>) -> Result<u64> {
        let lock = redlock().lock(format!("yields:{key}"));
        let body = async move |_| {
            yields.await;
            Ok(key)
        };
        lock.hold(body).await?
    }

    pub(crate) async fn plain(key: u64, yields: Yields<'_>) -> Result<u64> {
        yields.await;
        Ok(key)
    }
}
