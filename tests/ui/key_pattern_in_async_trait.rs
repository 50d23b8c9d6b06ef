use redlock_runtime::{LockError, redis_lock};

struct Path<T>(T);

#[async_trait::async_trait]
trait Pay {
    #[redis_lock(key = "order:{id}")]
    async fn pay(&self, Path(id): Path<u64>) -> Result<(), LockError> {
        Ok(())
    }
}

fn main() {}
