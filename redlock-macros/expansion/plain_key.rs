#[redis_lock(key = "stock:{shop}-{sku:05}:{shop}:{REGION}")]
async fn reserve(shop: &str, sku: u64) -> Result<(), LockError> {
    Ok(())
}
