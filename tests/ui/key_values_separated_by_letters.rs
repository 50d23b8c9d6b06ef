use redlock_runtime::{LockError, redis_lock};

struct Order {
    id: u64,
}

#[redis_lock(key = "{shop}order{order.id}")]
async fn pay(shop: &str, order: Order) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
