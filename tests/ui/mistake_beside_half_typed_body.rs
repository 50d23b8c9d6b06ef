#![warn(unused)]
use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{id}", colour)]
pub async fn pay(id: u64) -> Result<u64, LockError> {
    let half = id.
}

#[redis_lock(key = "order:{id}", colour)]
pub async fn cancel(id: u64) -> Result<(), LockError> { Ok(()) }

fn main() {}
