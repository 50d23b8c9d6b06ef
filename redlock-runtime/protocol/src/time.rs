//! Points in time, as numbers handed in from outside.

use std::{num::NonZeroU64, time::Duration};

/// Nanoseconds on the engine's clock. There is no way to read a clock here: every value was
/// passed in with an event, or computed from one that was.
// One more, so that an `Option` of it is no larger: there are many for each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(NonZeroU64);

/// A span that is kept for each node of each key: half as large as a `Duration`. Spans of more than
/// 584 years stop there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span(u64);

/// A span in what servers count: whole milliseconds, rounded up, so that nothing ends before its time.
#[must_use]
pub fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// The span that a server takes this one for.
pub(crate) fn counted(span: Duration) -> Duration {
    Duration::from_millis(millis(span))
}

impl Span {
    pub(crate) const ZERO: Self = Self(0);
}

impl From<Duration> for Span {
    fn from(span: Duration) -> Self {
        Self(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        Self::from_nanos(span.0)
    }
}

impl Instant {
    /// So many nanoseconds after the clock's origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(nanos))
    }

    /// Nanoseconds since the clock's origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0.get() - 1
    }

    /// `self + span`; spans beyond the end of time (`wait(Duration::MAX)`) stop at its end.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(Span::from(span).0))
    }

    /// `self - span`; it stops at the clock's origin.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        Self::from_nanos(self.as_nanos().saturating_sub(Span::from(span).0))
    }

    /// What a server's clock shows: whole milliseconds.
    pub(crate) const fn shown(self) -> Self {
        let nanos = self.as_nanos();
        Self::from_nanos(nanos - nanos % 1_000_000)
    }

    /// How long after `earlier` this is; zero if it is not after it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
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
