//! Generic functions: types, constants, lifetimes, `where`.

use std::fmt::{Debug, Display};
use std::time::Duration;

use super::support::{assert_all_released, assert_held, install};
use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "generic:{id}")]
async fn generic<T: Display, const N: usize, U>(
    id: T,
    values: [U; N],
) -> Result<(T, usize), LockError>
where
    U: Debug + Clone,
{
    assert_held("generic:1").await;
    Ok((id, values.len()))
}

#[redis_lock(key = "const:{N}")]
async fn const_in_key<const N: usize>() -> Result<[u8; N], LockError> {
    assert_held("const:2").await;
    Ok([0; N])
}

#[redis_lock(key = "lifetimes:{a}")]
async fn lifetimes<'a, 'b: 'a>(a: &'a str, b: &'b str) -> Result<&'a str, LockError> {
    assert_held("lifetimes:a").await;
    Ok(if a.is_empty() { b } else { a })
}

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

struct Repository<S>(S);
impl<S> Repository<S>
where
    S: Display + Sync,
{
    #[redis_lock(key = "repository:{self.0}:{id}")]
    async fn load<I>(&self, id: I) -> Result<Option<&S>, LockError>
    where
        I: Display + PartialEq<u8>,
    {
        assert_held("repository:s:1").await;
        Ok((id == 1).then_some(&self.0))
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
    assert_eq!(generic(1, ["a", "b"]).await.unwrap(), (1, 2));
    assert_eq!(const_in_key::<2>().await.unwrap(), [0, 0]);
    assert_eq!(lifetimes("a", "b").await.unwrap(), "a");
    generic_lease(Short).await.unwrap();
    qualified_lease().await.unwrap();
    Short.self_lease().await.unwrap();
    assert_eq!(Repository("s").load(1).await.unwrap(), Some(&"s"));
    assert_eq!(apply(async |n| n + 1).await.unwrap(), 2);
    assert_all_released().await;
}
