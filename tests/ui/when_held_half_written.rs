use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "job", when_held = Ok(1) +)]
async fn job() -> Result<u8, LockError> {
    Ok(0)
}

fn main() {}
