use redlock_runtime::{LockError, redis_lock};

fn send<T: Send>(_: T) {}

#[redis_lock(key = "order")]
async fn pay() -> Result<(), LockError> {
    let shared = std::rc::Rc::new(1);
    std::future::ready(()).await;
    drop(shared);
    Ok(())
}

fn main() {
    send(pay());
}
