use redlock_runtime::{LockError, redis_lock};

struct Id;

#[redis_lock(key = "order:{id}")]
async fn pay(id: Id) -> Result<Id, LockError> {
    Ok(id)
}

fn main() {}
