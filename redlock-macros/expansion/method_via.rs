impl Shop {
    #[redis_lock(key = "shop:{self.id}:{sku}", via = self.redlock, when_held = Ok(0))]
    async fn sell(&self, sku: &str, (count, price): (u32, u32)) -> Result<u32, LockError> {
        self.stock.take(sku, count).await;
        Ok(count * price)
    }
}
