use redlock_runtime::redis_lock;

#[redis_lock(key = "order")]
async fn pay() -> Option<u64> {
    Some(1)
}

fn main() {}
