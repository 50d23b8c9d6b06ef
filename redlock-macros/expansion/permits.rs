#[redis_lock(key = "exports", permits = 3, wait = 2s)]
async fn export(id: u64) -> Result<u64, LockError> {
    Ok(id)
}
