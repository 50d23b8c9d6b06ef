use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{order.user}")]
async fn pay() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
