//! The operating system's clock that counts suspend, and never goes backwards.

use std::time::Duration;

use redlock_protocol::Instant;

/// `Instant` of the standard library stops on Linux while the machine sleeps; leases do not.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn now() -> Instant {
    from_timespec(rustix::time::clock_gettime(rustix::time::ClockId::Boottime))
}

/// On macOS and the BSDs this clock goes on while the machine sleeps.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
pub(crate) fn now() -> Instant {
    from_timespec(rustix::time::clock_gettime(
        rustix::time::ClockId::Monotonic,
    ))
}

#[cfg(unix)]
pub(crate) fn from_timespec(time: rustix::time::Timespec) -> Instant {
    let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or_default());
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    Instant::from_nanos(nanos).after(seconds)
}

/// The standard library's clock counts suspend on Windows.
#[cfg(not(unix))]
pub(crate) fn now() -> Instant {
    static ORIGIN: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    Instant::from_nanos(0).after(ORIGIN.elapsed() + Duration::from_secs(1))
}
