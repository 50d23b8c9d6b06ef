use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "file:{pth!raw}")]
async fn write(path: &str) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
