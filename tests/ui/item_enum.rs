use redlock_runtime::redis_lock;

#[redis_lock(key = "order")]
enum Order {}

fn main() {}
