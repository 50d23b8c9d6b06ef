use redlock_runtime::{LockError, redis_lock};

use std::time::Duration;

#[redis_lock(key = "order:{id}", expire = lease)]
async fn pay(id: u64, lease: Duration) -> Result<u64, LockError> {
    println!("{lease:?}");
    Ok(id)
}

fn main() {}
