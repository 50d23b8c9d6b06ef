#![deny(unused)]
use redlock_runtime::{LockError, redis_lock};

pub struct Order {
    id: u64,
}

#[redis_lock(key = "order")]
pub async fn pay(id: u64, order: Order) -> Result<Order, LockError> {
    let id_of_order = Order { id: order.id };
    Ok(id_of_order)
}

fn main() {}
