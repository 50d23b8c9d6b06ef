use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = KEY)]
async fn pay(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
