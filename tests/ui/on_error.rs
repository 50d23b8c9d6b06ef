use redlock_runtime::redis_lock;

#[redis_lock(key = "order:{id}", on_error = async |_| 0)]
async fn closure_async(id: u64) -> u64 {
    id
}

const ON_ERROR: u64 = 0;

#[redis_lock(key = "order:{id}", on_error = ON_ERROR)]
async fn constant(id: u64) {}

fn main() {}
