use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{id}" expire = 5s)]
async fn comma_missing(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "order:{id}", guard = lease)]
async fn guard(id: u64) -> Result<(), LockError> {
    let _ = id;
    Ok(())
}

#[redis_lock(expire = 5s)]
async fn key_missing(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redis_lock("order", expire = 5s)]
async fn key_unnamed(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redis_lock("key" = "order:{id}")]
async fn name_in_quotes(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[redis_lock()]
async fn none(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "order:{id}"; expire = 5s)]
async fn semicolon_between(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[redis_lock(key = "order:{id}", expire = 5s, expire = 6s)]
async fn twice(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "order:{id}", expires = 5s)]
async fn unknown(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "order:{id}", expire: 5s)]
async fn with_colon(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "order:{id}", renew, max-hold = 1m)]
pub async fn with_hyphen(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[redis_lock(key = "order:{id}", expire)]
async fn without_value(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
