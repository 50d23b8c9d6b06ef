use redlock_runtime::redis_lock;

#[redis_lock(key = "order")]
async fn pay() -> impl std::fmt::Display {
    1
}

fn main() {}
