use redlock_runtime::{LockError, redis_lock};

use std::pin::Pin;

#[redis_lock(key = "order")]
fn pay() -> Pin<Box<dyn Future<Output = Result<u64, LockError>> + Send>> {
    println!("without the lock");
    Box::pin(async move { Ok(1) })
}

fn main() {}
