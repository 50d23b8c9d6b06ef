use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{id}")]
async fn pay(id: u64) -> Result<u64, LockError> {
    let later = id.wait_for_it().await;
    Ok(later + id.len())
}

fn main() {}
