use redlock_runtime::redis_lock;

#[redis_lock(key = "order")]
use std::time::Duration;

fn main() {}
