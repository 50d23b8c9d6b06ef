#![deny(unused)]
use redlock_runtime::{LockError, redis_lock};

pub struct Order {
    id: u64,
}

#[redis_lock(key = "order")]
pub async fn field_like_argument(id: u64, order: Order) -> Result<Order, LockError> {
    let id_of_order = Order { id: order.id };
    Ok(id_of_order)
}

#[redis_lock(key = "order")]
pub async fn variable(id: u64, amount: u64) -> Result<u64, LockError> {
    let half = amount / 2;
    std::fs::read("orders");
    return Ok(amount);
    Ok(0)
}

fn main() {}
