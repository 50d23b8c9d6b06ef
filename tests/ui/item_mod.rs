use redlock_runtime::redis_lock;

#[redis_lock(key = "order")]
mod pay {}

fn main() {}
