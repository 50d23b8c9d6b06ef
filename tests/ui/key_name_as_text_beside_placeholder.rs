use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "{shop}:$id")]
pub async fn pay(shop: u64, id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
