//! Methods: every kind of `self`.

use std::pin::Pin;
use std::sync::Arc;

use super::support::{assert_all_released, assert_held, install};
use redlock_runtime::{LockError, redis_lock};

#[derive(Clone, Default)]
struct Shop {
    id: u64,
    sold: u64,
}

impl Shop {
    #[redis_lock(key = "value:{self.id}")]
    async fn by_value(self) -> Result<u64, LockError> {
        assert_held("value:1").await;
        Ok(self.sold)
    }

    #[redis_lock(key = "mut-value:{self.id}")]
    async fn by_mut_value(mut self) -> Result<Self, LockError> {
        assert_held("mut-value:1").await;
        self.sold += 1;
        Ok(self)
    }

    #[redis_lock(key = "ref:{self.id}")]
    async fn by_ref(&self) -> Result<u64, LockError> {
        assert_held("ref:1").await;
        Ok(self.sold)
    }

    #[redis_lock(key = "mut-ref:{self.id}")]
    async fn by_mut_ref(&mut self) -> Result<(), LockError> {
        assert_held("mut-ref:1").await;
        self.sold += 1;
        Ok(())
    }

    #[redis_lock(key = "arc:{self.id}")]
    async fn by_arc(self: Arc<Self>) -> Result<u64, LockError> {
        assert_held("arc:1").await;
        Ok(self.sold)
    }

    #[redis_lock(key = "arc-ref:{self.id}")]
    async fn by_arc_ref(self: &Arc<Self>) -> Result<u64, LockError> {
        assert_held("arc-ref:1").await;
        Ok(self.sold)
    }

    #[redis_lock(key = "box:{self.id}")]
    async fn by_box(self: Box<Self>) -> Result<u64, LockError> {
        assert_held("box:1").await;
        Ok(self.sold)
    }

    #[redis_lock(key = "pin:{self.id}")]
    async fn by_pin(self: Pin<&mut Self>) -> Result<u64, LockError> {
        assert_held("pin:1").await;
        Ok(self.sold)
    }

    #[redis_lock(key = "self-unused")]
    async fn unused(&self) -> Result<(), LockError> {
        assert_held("self-unused").await;
        Ok(())
    }

    #[redis_lock(key = "associated:{id}")]
    async fn associated(id: u64) -> Result<Self, LockError> {
        assert_held("associated:1").await;
        Ok(Self { id, sold: 0 })
    }
}

#[tokio::test]
async fn every_receiver() {
    install().await;
    let mut shop = Shop { id: 1, sold: 0 };
    assert_eq!(shop.clone().by_value().await.unwrap(), 0);
    assert_eq!(shop.clone().by_mut_value().await.unwrap().sold, 1);
    assert_eq!(shop.by_ref().await.unwrap(), 0);
    shop.by_mut_ref().await.unwrap();
    assert_eq!(Arc::new(shop.clone()).by_arc().await.unwrap(), 1);
    assert_eq!(Arc::new(shop.clone()).by_arc_ref().await.unwrap(), 1);
    assert_eq!(Box::new(shop.clone()).by_box().await.unwrap(), 1);
    assert_eq!(Pin::new(&mut shop).by_pin().await.unwrap(), 1);
    shop.unused().await.unwrap();
    assert_eq!(Shop::associated(1).await.unwrap().id, 1);
    assert_all_released().await;
}
