use redlock_runtime::redis_lock;

#[redis_lock(key = "order")]
async fn pay() -> u64 {
    1
}

fn main() {}
