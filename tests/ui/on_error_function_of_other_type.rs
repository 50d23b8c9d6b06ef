use redlock_runtime::{LockError, redis_lock};

fn handle(_: LockError) -> u8 {
    0
}

#[redis_lock(key = "order:{id}", on_error = handle)]
async fn pay(id: u64) -> u64 {
    id
}

fn main() {}
