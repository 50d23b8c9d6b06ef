use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{id", expires = 5s, wait = 5sec, max_hold = "1m", lease = 5)]
async fn pay(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
