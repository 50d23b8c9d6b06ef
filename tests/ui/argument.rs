use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{id}" expire = 5s)]
async fn comma_missing(id: u64) {}

#[redis_lock(key = "order:{id}", guard = lease)]
async fn guard(id: u64) {}

#[redis_lock(expire = 5s)]
async fn key_missing(id: u64) {}

#[redis_lock("order", expire = 5s)]
async fn key_unnamed(id: u64) {}

#[redis_lock("key" = "order:{id}")]
async fn name_in_quotes(id: u64) {}

#[redis_lock(key = "order:{id}"; expire = 5s)]
async fn semicolon_between(id: u64) {}

#[redis_lock(key = "order:{id}", expire = 5s, expire = 6s)]
async fn twice(id: u64) {}

#[redis_lock(key = "order:{id}", renew, max-hold = 1m)]
pub async fn with_hyphen(id: u64) {}

#[redis_lock(key = "order:{id}", expire)]
async fn without_value(id: u64) {}

#[redis_lock(key = "order:{id}", crate = "redlock")]
async fn crate_in_quotes(id: u64) {}

#[redis_lock(key = "order:{id}", name = "")]
async fn name_empty(id: u64) {}

#[redis_lock(key = "order:{id}", name = "order:{id}")]
async fn name_with_placeholder(id: u64) {}

#[redis_lock(key = "order:{id}", shared = true)]
async fn shared_with_value(id: u64) {}

#[redis_lock(key = "order:{id}", lease = _)]
async fn lease_underscore(id: u64) {}

#[redis_lock(key = "job", when_held)]
async fn when_held_without_value() {}

#[redis_lock(key = "order:{id", expires = 5s, wait = 5sec, max_hold = "1m", lease = 5)]
async fn several_mistakes(id: u64) {}

#[redis_lock(key = "order:{id}", via = self.)]
async fn via_half_written(id: u64) {}

#[redis_lock(key = "job", when_held = Ok(1) +)]
async fn when_held_half_written() -> Result<u8, LockError> {
    Ok(0)
}

#[redis_lock(key = "order:{id}", on_error = 0)]
async fn on_error_value(id: u64) {}

fn main() {}
