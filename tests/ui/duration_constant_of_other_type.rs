use redlock_runtime::{LockError, redis_lock};

const LEASE: u64 = 5;

#[redis_lock(key = "order", expire = LEASE)]
async fn pay() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
