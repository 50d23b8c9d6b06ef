use redlock_runtime::redis_lock;

struct Order;

#[redis_lock(key = "order")]
impl Order {
    async fn pay(&self) {}
}

fn main() {}
