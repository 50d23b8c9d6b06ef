use redlock_runtime::{LockError, redis_lock};

struct Shop(String);

impl Shop {
    #[redis_lock(key = "shop")]
    async fn longer(&self, other: &str) -> Result<&str, LockError> {
        println!("{}", self.0);
        Ok(other)
    }
}

fn main() {}
