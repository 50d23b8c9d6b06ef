//! Losses that are noted.

/// A loss that is noted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Loss {
    pub(super) age: u8,
    /// How long the process has run, if it has flushed nothing since and had a marker.
    pub(super) uptime: Uptime,
    /// A client that has noted it, or seen it since, knew that another node had a marker, or this one
    /// that of another process.
    pub(super) is_seen: bool,
    /// That is noted.
    pub(super) beside_marker: bool,
    /// Since it was found there was a moment at which all nodes were new.
    pub(super) is_first_start: bool,
}

/// How long a process has run, and one more; zero if that proves nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Uptime(pub(super) u8);

impl Uptime {
    /// It was just started.
    pub(super) const NEW: Self = Self(1);

    pub(super) fn tick(&mut self, most: u8) {
        if self.0 > 0 {
            self.0 = (self.0 + 1).min(most + 1);
        }
    }
}

impl Loss {
    /// So much time has passed since it was noted, or since what was forgotten was granted.
    pub(super) const fn is_over(&self, wait: u8) -> bool {
        self.age >= wait || self.uptime.0 > wait
    }
}
