use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "job", if_held = Ok(()))]
async fn job() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
