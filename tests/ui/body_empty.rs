use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order")]
async fn pay(id: u64) -> Result<u64, LockError> {}

fn main() {}
