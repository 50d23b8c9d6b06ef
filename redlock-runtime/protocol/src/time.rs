//! Points in time, as numbers handed in from outside.

use std::time::Duration;

/// Nanoseconds on the engine's clock. There is no way to read a clock here: every value was
/// passed in with an event, or computed from one that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(u64);

impl Instant {
    /// So many nanoseconds after the clock's origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// `self + span`; spans beyond the end of time (`wait(Duration::MAX)`) stop at its end.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }

    /// `self - span`; it stops at the clock's origin.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(nanos))
    }

    /// How long after `earlier` this is; zero if it is not after it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_time_is_not_passed() {
        let late = Instant::from_nanos(7).after(Duration::MAX);
        assert_eq!(late, Instant::from_nanos(u64::MAX));
        assert_eq!(Instant::from_nanos(7).since(late), Duration::ZERO);
    }
}
