use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{id}", expire = 5s, at_least = 6s)]
async fn pay(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
