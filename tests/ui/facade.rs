use my_facade::redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{id}")]
async fn pay(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
