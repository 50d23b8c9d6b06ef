use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order", when_held = Ok(names.len()))]
pub async fn pay(names: Vec<String>) -> Result<usize, LockError> {
    Ok(names.len())
}

fn main() {}
