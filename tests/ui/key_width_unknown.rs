use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{id:>widht$}")]
async fn pay(id: u64, width: usize) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
