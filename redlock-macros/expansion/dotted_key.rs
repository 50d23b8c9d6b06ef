#[redis_lock(key = "{{shop}}-{order.shop.name()}/{order.lines.0:05}:{SHARD}:{id:?}")]
async fn pay(order: Order, id: u64) -> Result<(), LockError> {
    order.pay(id).await
}
