use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order")]
fn pay() -> Result<u8, LockError> {
    let amount: u8 = "all";
    Ok("all")
}

fn main() {}
