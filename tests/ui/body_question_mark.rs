use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order")]
async fn pay(id: &str) -> Result<u64, LockError> {
    Ok(id.parse()?)
}

fn main() {}
