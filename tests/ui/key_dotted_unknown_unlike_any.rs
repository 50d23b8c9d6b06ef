use redlock_runtime::{LockError, redis_lock};

struct Request {
    user: u64,
}

#[redis_lock(key = "order:{order.user}")]
async fn pay(req: Request, id: u64) -> Result<u64, LockError> {
    Ok(req.user + id)
}

fn main() {}
