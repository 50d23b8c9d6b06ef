use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{if id > 0 { 1 } else { 0 }}")]
async fn pay(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
