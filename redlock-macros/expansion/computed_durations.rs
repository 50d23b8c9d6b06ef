impl Job {
    #[redis_lock(key = "job", expire = LEASE, wait = self.wait, renew = every, max_hold = 1m)]
    async fn run(&self, every: Duration) -> Result<(), LockError> {
        Ok(())
    }
}
