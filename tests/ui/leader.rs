use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "scheduler", leader, wait = 5s)]
async fn does_not_wait() {}

#[redis_lock(key = ["a", "b"], leader)]
async fn leads_two() {}

#[redis_lock(key = "scheduler", leader)]
fn cannot_be_stopped() -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "scheduler", leadership)]
async fn misspelt() {}

fn main() {}
