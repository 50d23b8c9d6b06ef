use redlock_runtime::{LockError, redis_lock};

#[redis_lock]
async fn pay() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
