//! What time it is: on a clock that counts suspend, and never goes backwards.

use std::time::Duration;

use crate::protocol::Instant;

/// The engine's clock, the same for the thread or task that drives it and for every guard.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// The operating system's.
    System,
    /// An engine that runs on a runtime of the application also follows that runtime's clock
    /// where it is ahead: a test that pauses and advances tokio's time moves leases with it.
    Runtime {
        began: Instant,
        origin: tokio::time::Instant,
    },
}

impl Clock {
    /// Must be called within the runtime whose clock is to be followed.
    pub(crate) fn of_this_runtime() -> Self {
        Self::Runtime {
            began: system_now(),
            origin: tokio::time::Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::System => system_now(),
            // The later of the two: a lease that ends early is safe, one that ends late is not.
            Self::Runtime { began, origin } => system_now().max(began.after(origin.elapsed())),
        }
    }
}

/// `Instant` of the standard library stops on Linux while the machine sleeps; leases do not.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn system_now() -> Instant {
    from_timespec(rustix::time::clock_gettime(rustix::time::ClockId::Boottime))
}

/// On macOS and the BSDs this clock goes on while the machine sleeps.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
fn system_now() -> Instant {
    from_timespec(rustix::time::clock_gettime(
        rustix::time::ClockId::Monotonic,
    ))
}

#[cfg(unix)]
fn from_timespec(time: rustix::time::Timespec) -> Instant {
    let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or_default());
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    Instant::from_nanos(nanos).after(seconds)
}

/// The standard library's clock counts suspend on Windows.
#[cfg(not(unix))]
fn system_now() -> Instant {
    static ORIGIN: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    Instant::from_nanos(0).after(ORIGIN.elapsed() + Duration::from_secs(1))
}
