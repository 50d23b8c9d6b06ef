use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{id}", expire = 99999999999999999999s)]
async fn pay(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
