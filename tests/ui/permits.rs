use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "exports", permits = 1025)]
async fn too_many() {}

#[redis_lock(key = "exports", permits = 3s)]
async fn with_a_unit() {}

#[redis_lock(key = "exports", permits = 3, weight = 4)]
async fn more_than_there_are() {}

#[redis_lock(key = "exports", weight = 2)]
async fn of_nothing() {}

const LARGE: u32 = 4;

#[redis_lock(key = "exports", permits = 3, weight = LARGE)]
async fn more_than_there_are_by_a_constant() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
