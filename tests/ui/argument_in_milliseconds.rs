use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{id}", timeout_ms = 500)]
pub async fn pay(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
