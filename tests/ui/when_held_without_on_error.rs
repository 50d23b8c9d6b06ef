use redlock_runtime::redis_lock;

#[redis_lock(key = "job", when_held = None)]
async fn job() -> Option<u8> {
    Some(1)
}

fn main() {}
