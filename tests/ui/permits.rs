use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "exports", permits = 1025)]
async fn too_many() -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "exports", permits = 3s)]
async fn with_a_unit() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
