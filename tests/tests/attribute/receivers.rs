//! Methods: kinds of `self` that `lints/shapes.rs` has not.

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
    #[redis_lock(key = "mut-value:{self.id}")]
    async fn by_mut_value(mut self) -> Result<Self, LockError> {
        assert_held("mut-value:1").await;
        self.sold += 1;
        Ok(self)
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
}

#[tokio::test]
async fn every_receiver() {
    install().await;
    let mut shop = Shop { id: 1, sold: 0 };
    assert_eq!(shop.clone().by_mut_value().await.unwrap().sold, 1);
    assert_eq!(Arc::new(shop.clone()).by_arc_ref().await.unwrap(), 0);
    assert_eq!(Box::new(shop.clone()).by_box().await.unwrap(), 0);
    assert_eq!(Pin::new(&mut shop).by_pin().await.unwrap(), 0);
    assert_all_released().await;
}
