use redlock_runtime::redis_lock;

#[redis_lock(key = "order:{id}", on_error = || 0)]
async fn pay(id: u64) -> u64 {
    id
}

fn main() {}
