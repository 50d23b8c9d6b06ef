use redlock_runtime::{LockError, redis_lock};

const LIMIT: usize = 3;

#[redis_lock(key = "order:{id}", permits = LIMIT)]
pub async fn pay(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
