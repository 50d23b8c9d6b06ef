use redlock_runtime::redis_lock;

const ON_ERROR: u64 = 0;

#[redis_lock(key = "order:{id}", on_error = ON_ERROR)]
async fn pay(id: u64) -> u64 {
    id
}

fn main() {}
