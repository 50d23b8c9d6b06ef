use redlock_runtime::redis_lock;

#[redis_lock(key = "order")]
async fn opaque() -> impl std::fmt::Display {
    1
}

#[redis_lock(key = "order")]
async fn option() -> Option<u64> {
    Some(1)
}

#[redis_lock(key = "order")]
async fn other_error() -> Result<u64, std::num::ParseIntError> {
    "1".parse()
}

#[redis_lock(key = "job", when_held = None)]
async fn when_held() -> Option<u8> {
    Some(1)
}

fn main() {}
