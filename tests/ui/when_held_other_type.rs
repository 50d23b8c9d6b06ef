use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "job", when_held = false)]
async fn job() -> Result<bool, LockError> {
    Ok(true)
}

fn main() {}
