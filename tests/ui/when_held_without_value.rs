use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "job", when_held)]
async fn job() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
