use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order")]
async fn pay<'a>() -> Result<&'a str, LockError> {
    let text = String::new();
    Ok(&text)
}

fn main() {}
