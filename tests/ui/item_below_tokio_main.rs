use redlock_runtime::{LockError, redis_lock};

#[tokio::main(flavor = "current_thread")]
#[redis_lock(key = "order")]
async fn main() -> Result<(), LockError> {
    Ok(())
}
