#[redis_lock(key = "stock:{sku}", max_hold = 1m, lease = lease)]
fn reserve(sku: u64, connection: &mut Connection) -> Result<u32, Error> {
    connection.write(sku, lease.fencing_token()?)
}
