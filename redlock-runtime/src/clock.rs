//! What time it is: on a clock that counts suspend, and never goes backwards.

use std::time::Duration;

use redlock_protocol::Instant;

/// `Instant` of the standard library stops on Linux while the machine sleeps; leases do not.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
/// On macOS and the BSDs this clock goes on while the machine sleeps.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

/// Returns the time since the machine was started.
#[cfg(unix)]
pub fn now() -> Instant {
    let time = rustix::time::clock_gettime(CLOCK);
    let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or_default());
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    Instant::from_nanos(nanos).after(seconds)
}

/// Returns the time on the standard library's clock, which counts suspend on Windows.
#[cfg(not(unix))]
pub fn now() -> Instant {
    static ORIGIN: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    Instant::from_nanos(0).after(ORIGIN.elapsed() + Duration::from_secs(1))
}

/// The engine's clock, the same for the thread or task that drives it and for every guard.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// The operating system's.
    System,
    /// That of a tokio runtime, so that a test which pauses and advances time moves leases with it.
    Runtime {
        origin: tokio::time::Instant,
        began: Instant,
    },
}

impl Clock {
    /// Must be called within the runtime whose clock it follows.
    pub(crate) fn of_this_runtime() -> Self {
        Self::Runtime {
            origin: tokio::time::Instant::now(),
            began: now(),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::System => now(),
            Self::Runtime { origin, began } => began.after(origin.elapsed()),
        }
    }
}

/// True if the tokio clock of this thread's runtime is paused: it stands still while the standard
/// library's, from which tokio takes it otherwise, goes on.
pub(crate) fn is_paused_here() -> bool {
    let tokio_before = tokio::time::Instant::now();
    let before = std::time::Instant::now();
    while std::time::Instant::now() == before {
        std::hint::spin_loop();
    }
    tokio::time::Instant::now() == tokio_before
}

/// Microseconds since 1970; zero on a machine whose clock is before that.
pub(crate) fn wall_micros() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    })
}
