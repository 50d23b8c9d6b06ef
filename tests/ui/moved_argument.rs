use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order", on_error = |_| Err(order))]
async fn on_error(order: String) -> Result<String, String> {
    Ok(order)
}

#[redis_lock(key = "job", when_held = Ok(name))]
async fn when_held(name: String) -> Result<String, LockError> {
    Ok(name + "!")
}

struct Job {
    skipped: u32,
}

impl Job {
    #[redis_lock(key = "job", when_held = Ok(self.skipped))]
    async fn run(&mut self) -> Result<u32, LockError> {
        self.skipped += 1;
        Ok(self.skipped)
    }
}

#[redis_lock(key = "scheduler", leader)]
async fn leader(jobs: Vec<String>) -> Result<(), LockError> {
    for job in jobs {
        println!("{job}");
    }
    Ok(())
}

fn main() {}
