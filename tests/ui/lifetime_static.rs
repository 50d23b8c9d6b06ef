use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order")]
async fn pay(name: &str) -> Result<&'static str, LockError> {
    Ok(name)
}

fn main() {}
