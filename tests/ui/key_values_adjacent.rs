use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{shop}{id:?}")]
async fn pay(shop: &str, id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
