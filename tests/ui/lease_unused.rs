#![deny(warnings)]
use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order", lease = lease)]
async fn pay() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    drop(pay());
}
