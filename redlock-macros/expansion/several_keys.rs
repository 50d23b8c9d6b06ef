#[redis_lock(key = ["account:{from}", "account:{to.id}"], via = redlock)]
async fn transfer(redlock: &Redlock, from: u64, to: Account) -> Result<(), LockError> {
    Ok(())
}
