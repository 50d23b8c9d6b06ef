use redlock_runtime::{LockError, redis_lock};

async fn charge() {}

#[redis_lock(key = "order")]
fn pay() -> Result<(), LockError> {
    charge().await;
    Ok(())
}

fn main() {}
