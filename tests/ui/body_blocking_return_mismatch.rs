use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order")]
fn pay(early: bool) -> Result<u8, LockError> {
    if early {
        return 5;
    }
    "7".parse::<u8>()?;
    Ok(1)
}

fn main() {}
