#[redis_lock(key = "scheduler", leader, expire = 2s, renew = 500ms, lease = lease)]
async fn schedule(jobs: &Jobs, store: Store) -> Result<(), LockError> {
    store.run(jobs, lease.fencing_token()?).await
}
