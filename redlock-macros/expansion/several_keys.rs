#[redis_lock(
    key = [
        "account:{from}-{to.id:05}:{from}:{REGION}",
        "{{shop}}-{to.shop.name()}/{to.lines.0:05}:{SHARD}:{from:?}",
        "file:{path!raw:>width$}{from}",
        shared("prices"),
        permits("exports:{from}", EXPORTS),
    ],
    via = redlock
)]
async fn transfer(
    redlock: &Redlock,
    from: u64,
    to: Account,
    path: &str,
    width: usize,
) -> Result<(), LockError> {
    Ok(())
}
