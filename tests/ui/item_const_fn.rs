use redlock_runtime::redis_lock;

#[redis_lock(key = "order")]
const fn pay() {}

fn main() {}
