#[redis_lock(key = "stock:{sku}:{ connection.shop().type !raw:?}:{connection.0.1:>5}", max_hold = 1m, lease = lease)]
pub fn reserve(sku: u64, unused: u64, connection: &mut Connection) -> Result<u32, Error> {
    connection.write(sku, lease.fencing_token()?)
}
