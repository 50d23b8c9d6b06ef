use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order")]
async fn pay(name: &str) -> Result<(), LockError> {
    std::thread::spawn(move || println!("{name}"));
    Ok(())
}

fn main() {}
