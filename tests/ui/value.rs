use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "export", value = port)]
async fn is_no_text(port: u16) -> Result<u16, LockError> {
    Ok(port)
}

#[redis_lock(key = "export", value = "10.0.0.7", shared)]
async fn of_a_reader() {}

fn main() {}
