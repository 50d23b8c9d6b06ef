use redlock_runtime::{LockError, redis_lock};

const PERIOD: std::time::Duration = std::time::Duration::from_secs(6);

#[redis_lock(key = "order:{id}", expire = 5s, at_least = PERIOD)]
async fn pay(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
