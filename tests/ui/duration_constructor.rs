use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{id}", expire = std::time::Duration::from_secs(5))]
async fn pay(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
