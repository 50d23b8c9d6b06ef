use redlock_runtime::{LockError, redis_lock};

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

fn main() {}
