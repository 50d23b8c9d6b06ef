use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{id}", expire = 5s, at_least = 6s)]
async fn at_least_beyond_lease(id: u64) {}

#[redis_lock(key = "order:{id}", expire = 1m30s)]
async fn compound(id: u64) {}

#[redis_lock(key = "order:{id}", expire = std::time::Duration::from_secs(5))]
async fn constructor(id: u64) {}

#[redis_lock(key = "order:{id}", expire = 1.5ms)]
async fn fraction_of_millisecond(id: u64) {}

#[redis_lock(key = "order:{id}", wait = 500)]
pub async fn large_without_unit(id: u64) {}

#[redis_lock(key = "order:{id}", max_hold = 1m)]
async fn max_hold_without_renew(id: u64) {}

#[redis_lock(key = "order:{id}", renew = false)]
async fn renew_false(id: u64) {}

#[redis_lock(key = "order:{id}", expire = 5s, renew = 5000ms)]
async fn renew_not_shorter(id: u64) {}

#[redis_lock(key = "order:{id}", expire = 5ever)]
async fn unit_like_exponent(id: u64) {}

#[redis_lock(key = "order:{id}", wait = "none")]
async fn wait_forever(id: u64) {}

#[redis_lock(key = "order:{id}", expire = 0s)]
async fn zero(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
