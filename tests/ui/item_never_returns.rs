use redlock_runtime::redis_lock;

#[redis_lock(key = "order")]
async fn run() -> ! {
    loop {}
}

fn main() {}
