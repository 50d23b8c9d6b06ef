use redlock_runtime::{LockError, redis_lock};
use std::time::Duration;

struct Settings {
    lease: Duration,
}

#[redis_lock(key = "order:{id}", expire = setings.lease)]
async fn pay(id: u64, settings: &Settings) -> Result<Duration, LockError> {
    Ok(settings.lease)
}

#[redis_lock(key = "order:{id}", expire = settings.leese)]
async fn refund(id: u64, settings: &Settings) -> Result<Duration, LockError> {
    Ok(settings.lease)
}

fn main() {}
