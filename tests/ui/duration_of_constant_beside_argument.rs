use redlock_runtime::{LockError, redis_lock};
use std::time::Duration;

const LEASE: Duration = Duration::ZERO;

#[redis_lock(key = "order", expire = LEASE, wait = wait)]
async fn pay(wait: Duration) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
