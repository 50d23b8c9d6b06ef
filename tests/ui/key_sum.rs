use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:".to_owned() + &id)]
pub async fn pay(id: String) -> Result<u64, LockError> {
    Ok(id.len() as u64)
}

fn main() {}
