use redlock_runtime::{LockError, redis_lock};

struct Limits {
    exports: usize,
}

impl Limits {
    async fn of_now(&self) -> Self {
        Self { exports: 3 }
    }
}

#[redis_lock(key = "exports", permits = limits.exports)]
async fn other_type(limits: &Limits) -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "exports", permits = limits.imports)]
async fn unknown_field(limits: &Limits) -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "exports", permits = limits.of_now().await.exports)]
async fn awaited(limits: &Limits) {}

#[redis_lock(key = "exports", permits = {limits.exports})]
async fn in_braces(limits: &Limits) {}

#[redis_lock(key = "exports", permits = limits.exports as u32)]
async fn converted(limits: &Limits) {}

fn main() {}
