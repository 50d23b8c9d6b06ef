use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{id}", guard = lease)]
async fn pay(id: u64) -> Result<(), LockError> {
    let _ = id;
    Ok(())
}

fn main() {}
