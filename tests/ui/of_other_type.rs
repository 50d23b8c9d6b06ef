use redlock_runtime::{LockError, redis_lock};

const LEASE: u64 = 5;
const LIMIT: usize = 3;

struct Settings {
    seconds: u64,
}

#[redis_lock(key = "order:{id}", expire = settings.seconds)]
async fn duration_of_an_argument(id: u64, settings: &Settings) -> Result<u64, LockError> {
    Ok(id)
}

#[redis_lock(key = "order:{id}", renew = lease)]
async fn duration_by_reference(id: u64, lease: &std::time::Duration) -> Result<u64, LockError> {
    Ok(id)
}

#[redis_lock(key = "order", expire = LEASE)]
async fn duration_constant() -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "order:{id}", permits = LIMIT)]
pub async fn permits(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[redis_lock(key = "order:{id}", via = id)]
async fn via(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "job", when_held = false)]
async fn when_held() -> Result<bool, LockError> {
    Ok(true)
}

#[redis_lock(key = "order", on_error = |error| error)]
async fn on_error() -> Result<(), LockError> {
    Ok(())
}

fn returns_another_type(_: LockError) -> u8 {
    0
}

#[redis_lock(key = "order:{id}", on_error = returns_another_type)]
async fn on_error_function(id: u64) -> u64 {
    id
}

fn takes_another_type(_: u8) -> u64 {
    0
}

#[redis_lock(key = "order:{id}", on_error = takes_another_type)]
async fn on_error_argument(id: u64) -> u64 {
    id
}

fn main() {}
