use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order", when_held = async { Ok(()) })]
async fn pay() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
