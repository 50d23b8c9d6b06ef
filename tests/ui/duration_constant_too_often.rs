use redlock_runtime::{LockError, redis_lock};

const EVERY: std::time::Duration = std::time::Duration::from_millis(9);

#[redis_lock(key = "order", expire = 5s, renew = EVERY)]
async fn pay() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
