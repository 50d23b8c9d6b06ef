use redlock_runtime::{LockError, redis_lock};
use std::time::Duration;

struct Settings;

impl Settings {
    async fn lease(&self) -> (Duration,) {
        (Duration::ZERO,)
    }
}

#[redis_lock(key = "order:{id}", expire = settings.lease().await.0)]
async fn pay(id: u64, settings: Settings) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
