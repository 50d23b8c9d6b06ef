use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{id}")]
async fn pay(id: String) -> Result<String, LockError> {
    drop(id);
    Ok(id)
}

fn main() {}
