use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order")]
async fn pay() -> Result<&'static str, LockError> {
    let name = String::new();
    Ok(&name)
}

fn main() {}
