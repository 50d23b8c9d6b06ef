use redlock_runtime::{LockError, redis_lock};
use std::time::Duration;

const LEASE: Duration = Duration::from_millis(20);

#[redis_lock(key = "order", expire = 20ms)]
fn too_short_to_renew() -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "order", expire = LEASE)]
fn constant_too_short_to_renew() -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "order", expire = 5s, max_hold = 1s)]
fn held_too_short() -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "order", max_hold = 1m)]
fn without_error() {}

fn main() {}
