use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order")]
fn pay() -> impl Future<Output = Result<(), LockError>> {
    async move { Ok(()) }
}

fn main() {}
