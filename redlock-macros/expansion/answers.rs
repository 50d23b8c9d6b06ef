#[redis_lock(
    key = "report",
    expire = 5s,
    wait = 1,
    at_least = 2s,
    fair,
    value = "10.0.0.7",
    lease = lease,
    name = "reports.nightly",
    when_held = None,
    on_error = |error| log(error),
    crate = crate::lock,
)]
async fn report() -> Option<impl Display> {
    #![allow(clippy::let_and_return)]
    let fence = lease.key().len();
    Some(fence)
}
