use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{id}", max_hold = 1m)]
async fn pay(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
