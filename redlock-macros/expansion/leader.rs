#[redis_lock(key = "scheduler:{shop}", leader, expire = 2s, renew = 500ms, lease = lease)]
async fn schedule(shop: u64, jobs: &Jobs, store: Store) -> Result<(), LockError> {
    store.run(jobs, lease.fencing_token()?).await
}
