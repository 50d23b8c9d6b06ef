use redlock_runtime::{LockError, redis_lock};

struct Request {
    user: u64,
}

#[redis_lock(key = "order:{req.usr}")]
async fn dotted_field_unknown(req: Request) -> Result<u64, LockError> {
    Ok(req.user)
}

struct Id;

#[redis_lock(key = "order:{id}")]
async fn not_display(id: Id) -> Result<Id, LockError> {
    Ok(id)
}

struct Order {
    id: Id,
}

#[redis_lock(key = "order:{order.id}")]
async fn dotted_not_display(order: Order) -> Result<Id, LockError> {
    Ok(order.id)
}

fn main() {}
