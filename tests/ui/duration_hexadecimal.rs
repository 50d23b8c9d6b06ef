use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{id}", expire = 0x5d)]
async fn pay(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
