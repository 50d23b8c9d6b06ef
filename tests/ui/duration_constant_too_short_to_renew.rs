use redlock_runtime::{LockError, redis_lock};

const LEASE: std::time::Duration = std::time::Duration::from_millis(29);

#[redis_lock(key = "order", expire = LEASE, renew)]
async fn pay() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
