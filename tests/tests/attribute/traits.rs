//! Methods of traits under `#[async_trait]`; native ones are in `lints/shapes.rs`.

use super::support::{assert_all_released, assert_held, install};
use async_trait::async_trait;
use redlock_runtime::{LockError, redis_lock};

struct Shop;

#[async_trait]
trait Boxed {
    fn id(&self) -> u64;
    async fn pay(&self, order: &str, mut amount: u64) -> Result<u64, LockError>;
    async fn take(self: Box<Self>, name: String) -> Result<String, LockError>;
    async fn quiet(&mut self);

    #[redis_lock(key = "boxed-default:{self.id()}:{order}", lease = lease)]
    async fn refund(&self, order: &str) -> Result<u64, LockError> {
        assert_held("boxed-default:1:a").await;
        assert!(lease.is_held());
        Ok(self.id())
    }
}

#[derive(Default)]
struct Till {
    quiet: u8,
}

#[async_trait]
impl Boxed for Till {
    fn id(&self) -> u64 {
        1
    }

    #[redis_lock(key = "boxed:{order}:{self.id()}")]
    async fn pay(&self, order: &str, mut amount: u64) -> Result<u64, LockError> {
        assert_held("boxed:a:1").await;
        amount += self.id();
        if amount == 0 {
            return Ok(0);
        }
        Ok(amount)
    }

    #[redis_lock(key = "boxed-take:{name}")]
    async fn take(self: Box<Self>, name: String) -> Result<String, LockError> {
        assert_held("boxed-take:n").await;
        Ok(name)
    }

    #[redis_lock(key = "boxed-quiet", on_error = |error| panic!("{error}"))]
    async fn quiet(&mut self) {
        assert_held("boxed-quiet").await;
        self.quiet += 1;
    }
}

#[async_trait(?Send)]
trait Local {
    #[redis_lock(key = "local:{n}")]
    async fn local(&self, n: std::rc::Rc<u8>) -> Result<u8, LockError> {
        assert_held("local:1").await;
        Ok(*n)
    }
}
impl Local for Shop {}

#[async_trait]
trait Generic<T>
where
    T: Send + Sync + std::fmt::Display,
{
    async fn store<'a>(&'a self, value: &'a T) -> Result<&'a T, LockError>;
}

#[async_trait]
impl<T> Generic<T> for Shop
where
    T: Send + Sync + std::fmt::Display,
{
    #[redis_lock(key = "boxed-generic:{value}")]
    async fn store<'a>(&'a self, value: &'a T) -> Result<&'a T, LockError> {
        assert_held("boxed-generic:1").await;
        Ok(value)
    }
}

#[tokio::test]
async fn every_trait_method() {
    install().await;
    let mut till: Box<dyn Boxed + Send + Sync> = Box::<Till>::default();
    assert_eq!(till.pay("a", 1).await.unwrap(), 2);
    assert_eq!(till.refund("a").await.unwrap(), 1);
    till.quiet().await;
    assert_eq!(till.take("n".to_owned()).await.unwrap(), "n");
    assert_eq!(Shop.local(std::rc::Rc::new(1)).await.unwrap(), 1);
    assert_eq!(Shop.store(&1).await.unwrap(), &1);
    assert_all_released().await;
}
