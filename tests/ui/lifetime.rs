use redlock_runtime::{LockError, redis_lock};

struct Shop(String);

impl Shop {
    #[redis_lock(key = "shop")]
    async fn longer(&self, other: &str) -> Result<&str, LockError> {
        println!("{}", self.0);
        Ok(other)
    }
}

#[redis_lock(key = "order")]
async fn named<'a>(first: &'a str, second: &str) -> Result<&'a str, LockError> {
    println!("{first}");
    Ok(second)
}

#[redis_lock(key = "order")]
async fn of_the_program(name: &str) -> Result<&'static str, LockError> {
    Ok(name)
}

fn main() {}
