use redlock_runtime::{LockError, redis_lock};

type Answer = std::pin::Pin<Box<dyn Future<Output = Result<u64, LockError>>>>;

#[redis_lock(key = "order", on_error = |error| Box::pin(async { Err(error) }))]
pub fn pay(id: u64) -> Answer {
    Box::pin(async move { Ok(id) })
}

fn main() {}
