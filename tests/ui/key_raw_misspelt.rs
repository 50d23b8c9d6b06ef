use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "file:{path!row:>5}")]
async fn write(path: &str) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
