use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{ordr_id}")]
async fn pay(order_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
