use redlock_runtime::{LockError, redis_lock};

#[rustfmt::skip]
#[redis_lock(key = "order")]
async fn pay(id: u64) -> Result<u64, LockError> { id }

fn main() {}
