use redlock_runtime::{LockError, redis_lock};

struct Request {
    user: u64,
}

#[redis_lock(key = "order:{req.usr}")]
async fn pay(req: Request) -> Result<u64, LockError> {
    Ok(req.user)
}

fn main() {}
