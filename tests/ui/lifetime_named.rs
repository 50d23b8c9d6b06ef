use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order")]
async fn pay<'a>(first: &'a str, second: &str) -> Result<&'a str, LockError> {
    println!("{first}");
    Ok(second)
}

fn main() {}
