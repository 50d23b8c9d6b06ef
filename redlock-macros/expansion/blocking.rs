#[redis_lock(key = "stock:{sku}", max_hold = 1m, lease = lease)]
pub fn reserve(sku: u64, unused: u64, connection: &mut Connection) -> Result<u32, Error> {
    connection.write(sku, lease.fencing_token()?)
}
