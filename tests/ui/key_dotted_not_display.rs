use redlock_runtime::{LockError, redis_lock};

struct Id;
struct Request {
    id: Id,
}

#[redis_lock(key = "order:{req.id}")]
async fn pay(req: Request) -> Result<Id, LockError> {
    Ok(req.id)
}

fn main() {}
