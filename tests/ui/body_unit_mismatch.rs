use redlock_runtime::redis_lock;

#[redis_lock(key = "order", on_error = drop)]
async fn pay(id: u64) {
    id
}

fn main() {}
