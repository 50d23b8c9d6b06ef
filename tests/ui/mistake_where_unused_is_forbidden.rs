#![forbid(unused)]
use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{id}", colour)]
pub async fn pay(id: u64) -> Result<u64, LockError> {
    Ok(0)
}

fn main() {}
