use redlock_runtime::{LockError, redis_lock};

const MOST: u32 = 3;

#[redis_lock(key = "exports", permits = 0)]
async fn none() -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "exports", permits = 65)]
async fn too_many() -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "exports", permits = MOST + 1)]
async fn sum() -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = ["exports", "imports"], permits = 2)]
async fn several_keys() -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "exports", permits = 2, at_least = 1s)]
async fn kept() -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "exports", semaphore = 3)]
async fn other_name() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
