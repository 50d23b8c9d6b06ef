#![deny(unused)]
use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order")]
pub async fn pay(id: u64, amount: u64) -> Result<u64, LockError> {
    let half = amount / 2;
    std::fs::read("orders");
    return Ok(amount);
    Ok(0)
}

fn main() {}
