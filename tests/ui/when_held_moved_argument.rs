use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "job", when_held = Ok(name))]
async fn job(name: String) -> Result<String, LockError> {
    Ok(name + "!")
}

fn main() {}
