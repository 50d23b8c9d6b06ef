use redlock_runtime::redis_lock;

#[redis_lock(key = "order", on_error = |_| Err(order))]
async fn pay(order: String) -> Result<String, String> {
    Ok(order)
}

fn main() {}
