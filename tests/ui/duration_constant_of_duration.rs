use redlock_runtime::{LockError, redis_lock};
use std::time::Duration;

#[redis_lock(key = "order:{id}", expire = Duration::ZERO)]
async fn pay(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
