use redlock_runtime::redis_lock;

#[redis_lock(key = "order")]
async fn pay() -> Result<u64, std::num::ParseIntError> {
    "1".parse()
}

fn main() {}
