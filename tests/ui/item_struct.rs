use redlock_runtime::redis_lock;

#[redis_lock(key = "order")]
struct Order {
    id: u64,
}

fn main() {}
