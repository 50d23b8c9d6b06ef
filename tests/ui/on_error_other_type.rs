use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order", on_error = |error| error)]
async fn pay() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
