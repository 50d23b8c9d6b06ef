use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "scheduler", leader)]
async fn schedule(jobs: Vec<String>) -> Result<(), LockError> {
    for job in jobs {
        println!("{job}");
    }
    Ok(())
}

fn main() {}
