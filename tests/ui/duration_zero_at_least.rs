use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{id}", at_least = 0s)]
async fn pay(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
