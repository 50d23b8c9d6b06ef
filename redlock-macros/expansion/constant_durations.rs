#[redis_lock(key = "import", expire = LEASE, wait = config::WAIT)]
async fn import() -> Result<(), LockError> {
    Ok(())
}

impl<T: Leased> Import<T> {
    #[redis_lock(key = "import:{self}", expire = T::LEASE)]
    async fn run(&self) -> Result<(), LockError> {
        Ok(())
    }
}
