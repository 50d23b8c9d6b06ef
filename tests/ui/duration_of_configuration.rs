use redlock_runtime::{LockError, redis_lock};
use std::time::Duration;

struct Shop {
    lease: Duration,
}

impl Shop {
    #[redis_lock(key = "shop", expire = self.lease)]
    async fn close(&self) -> Result<Duration, LockError> {
        Ok(self.lease)
    }
}

fn main() {}
