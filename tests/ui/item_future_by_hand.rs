use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order")]
fn pay() -> impl Future<Output = Result<(), LockError>> {
    async move { Ok(()) }
}

type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + 'a>>;

#[redis_lock(key = "order")]
fn refund() -> BoxFuture<'static, u8> {
    other()
}

#[redis_lock(key = "order")]
fn cancel() -> std::pin::Pin<Box<dyn Future<Output = u8>>> {
    other()
}

fn main() {}
