use redlock_runtime::{LockError, redis_lock};
use std::pin::Pin;

#[redis_lock(key = "order")]
const fn constant() {}

struct Order;

#[redis_lock(key = "order")]
impl Order {
    async fn pay(&self) {}
}

#[redis_lock(key = "order")]
async fn never_returns() -> ! {
    loop {}
}

#[redis_lock(key = "order")]
unsafe fn not_safe() -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "order")]
extern "C" fn of_another_abi() -> u8 {
    1
}

trait Pay {
    #[redis_lock(key = "order")]
    fn pay(&self) -> impl Future<Output = Result<(), LockError>>;
}

#[redis_lock(key = "order")]
fn boxed_with_statements() -> Pin<Box<dyn Future<Output = Result<u64, LockError>> + Send>> {
    println!("without the lock");
    Box::pin(async move { Ok(1) })
}

#[redis_lock(key = "order")]
fn future_by_hand() -> impl Future<Output = Result<(), LockError>> {
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

#[redis_lock(key = "order")]
struct Item {
    id: u64,
}

fn main() {}
