use redlock_runtime::{LockError, redis_lock};

const LEASE: std::time::Duration = std::time::Duration::ZERO;

#[redis_lock(key = "order", expire = LEASE)]
async fn pay() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
