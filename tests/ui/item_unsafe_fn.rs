use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order")]
unsafe fn pay() -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "order")]
extern "C" fn refund() -> u8 {
    1
}

fn main() {}
