use redlock_runtime::{LockError, redis_lock};

struct Shop;

impl Shop {
    #[redis_lock(key = "order:{id", expires = 5s)]
    async fn pay(&self, id: u64) -> Result<(), LockError> {
        Ok(())
    }
}

trait Pay {
    #[redis_lock(key = "order:{selv.id}")]
    #[allow(async_fn_in_trait)]
    async fn pay(&self) -> Result<(), LockError> {
        Ok(())
    }
}

fn main() {
    // The functions are still there: no error here.
    drop(Shop.pay(1));
}
