use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "scheduler", leader, wait = 5s)]
async fn does_not_wait() {}

#[redis_lock(key = "scheduler", leader, shared)]
async fn shares() {}

#[redis_lock(key = "scheduler", permits = 2, leader)]
async fn is_one_of_two() {}

#[redis_lock(key = "scheduler", leader, when_held = Ok(()))]
async fn skips() {}

#[redis_lock(key = ["a", "b"], leader)]
async fn leads_two() {}

#[redis_lock(key = "scheduler", leader)]
fn cannot_be_stopped() -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "scheduler", leader = true)]
async fn has_a_value() {}

#[redis_lock(key = "scheduler", leadership)]
async fn misspelt() {}

fn main() {}
