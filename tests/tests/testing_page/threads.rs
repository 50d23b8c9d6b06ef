use redlock_runtime::{LockError, Redlock, redis_lock};

#[redis_lock(key = "stock:{sku}", wait = 5s)]
async fn reserve(sku: u64, quantity: u32) -> Result<u32, LockError> {
    Ok(quantity)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn reservations_of_one_stock_follow_each_other() {
    let redlock = Redlock::test();
    let tasks: Vec<_> = (0..8)
        .map(|_| tokio::spawn(redlock.scope(reserve(7, 1))))
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    redlock.assert_lock_count("stock:7", 8);
}
