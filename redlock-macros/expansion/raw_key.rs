#[redis_lock(key = "file:{path!raw:>width$}{version}")]
async fn write(path: &str, version: u64, width: usize) -> Result<(), LockError> {
    Ok(())
}
