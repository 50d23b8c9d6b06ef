use redlock_runtime::redis_lock;

#[redis_lock(key = "order")]
async fn pay() {}

fn main() {}
