use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{id}", expire = 5s, renew = 9ms)]
async fn pay(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
