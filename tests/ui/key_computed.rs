use redlock_runtime::{LockError, redis_lock};

fn key_of(id: u64) -> String {
    format!("order:{id}")
}

#[redis_lock(key = key_of(id))]
async fn pay(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
