//! Generic functions: types, constants, lifetimes, `where`.

use std::time::Duration;

use super::support::{assert_all_released, assert_held, install};
use redlock_runtime::{LockError, redis_lock};

trait Leased {
    const LEASE: Duration;
    fn id(&self) -> u64;
}
struct Short;
impl Leased for Short {
    const LEASE: Duration = Duration::from_secs(2);
    fn id(&self) -> u64 {
        1
    }
}

#[redis_lock(key = "leased:{leased.id()}", expire = T::LEASE)]
async fn generic_lease<T: Leased>(leased: T) -> Result<(), LockError> {
    assert_held("leased:1").await;
    let _ = leased;
    Ok(())
}

#[redis_lock(key = "qualified", expire = <Short as Leased>::LEASE, renew = Short::LEASE_RENEWAL)]
async fn qualified_lease() -> Result<(), LockError> {
    assert_held("qualified").await;
    Ok(())
}

impl Short {
    const LEASE_RENEWAL: Duration = Duration::from_millis(500);

    #[redis_lock(key = "self-lease", expire = Self::LEASE, wait = Self::LEASE_RENEWAL)]
    async fn self_lease(&self) -> Result<(), LockError> {
        assert_held("self-lease").await;
        Ok(())
    }
}

async fn apply<F, R>(act: F) -> Result<R, LockError>
where
    F: AsyncFnOnce(u8) -> R,
{
    #[redis_lock(key = "closure:{n}")]
    async fn locked<F: AsyncFnOnce(u8) -> R, R>(n: u8, act: F) -> Result<R, LockError> {
        assert_held("closure:1").await;
        Ok(act(n).await)
    }
    locked(1, act).await
}

#[tokio::test]
async fn every_generic() {
    install().await;
    generic_lease(Short).await.unwrap();
    qualified_lease().await.unwrap();
    Short.self_lease().await.unwrap();
    assert_eq!(apply(async |n| n + 1).await.unwrap(), 2);
    assert_all_released().await;
}
