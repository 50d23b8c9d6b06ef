use redlock_runtime::{LockError, redis_lock};

struct Order {
    id: u64,
}

#[redis_lock(key = "{idd}:{order.id}")]
async fn pay(order: Order, id: u64) -> Result<u64, LockError> {
    Ok(order.id + id)
}

fn main() {}
