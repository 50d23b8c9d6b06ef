#[redis_lock(key = "order:{id}")]
pub async fn pay(id: u64, unused: u64) -> Result<u64, LockError> {
    Ok(id)
}
