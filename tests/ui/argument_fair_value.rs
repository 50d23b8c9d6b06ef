use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{id}", fair = true)]
async fn pay(id: u64) -> Result<(), LockError> {
    let _ = id;
    Ok(())
}

#[redis_lock(key = "order:{id}", fifo)]
async fn refund(id: u64) -> Result<(), LockError> {
    let _ = id;
    Ok(())
}

fn main() {}
