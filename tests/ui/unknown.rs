use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order:{id}", crate = ::redlok)]
async fn crate_path(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "order", expire = LEASE)]
async fn duration_constant() -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "order:{ordr_id}")]
async fn plain_unknown(order_id: u64) -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = ["stock", "order:{ids}"])]
async fn list_unknown(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
