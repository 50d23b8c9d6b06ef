use redlock_runtime::{LockError, redis_lock};
use std::time::Duration;

const NOTHING: Duration = Duration::ZERO;
const LEASE: Duration = Duration::from_millis(29);

#[redis_lock(key = "order:{id}", expire = Duration::ZERO)]
async fn of_duration(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[redis_lock(key = "order:{id}", expire = Duration::MAX)]
async fn too_long(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[redis_lock(key = "order", expire = LEASE, renew)]
async fn too_short_to_renew() -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "order", expire = NOTHING, wait = wait)]
async fn beside_argument(wait: Duration) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
