use redlock_runtime::{LockError, redis_lock};

trait Pay {
    #[redis_lock(key = "order")]
    fn pay(&self) -> impl Future<Output = Result<(), LockError>>;
}

fn main() {}
