use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order")]
fn pay() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
