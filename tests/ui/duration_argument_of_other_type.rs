use redlock_runtime::{LockError, redis_lock};

struct Settings {
    seconds: u64,
}

#[redis_lock(key = "order:{id}", expire = settings.seconds)]
async fn pay(id: u64, settings: &Settings) -> Result<u64, LockError> {
    Ok(id)
}

#[redis_lock(key = "order:{id}", renew = lease)]
async fn refund(id: u64, lease: &std::time::Duration) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
