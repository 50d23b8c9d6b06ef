use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{shop}:{ordr_id}")]
async fn pay(shop: &str, order_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
