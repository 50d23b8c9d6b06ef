use redlock_runtime::{LockError, redis_lock};

#[tokio::main]
#[redis_lock(key = "order")]
async fn main() -> Result<(), LockError> {
    Ok(())
}
