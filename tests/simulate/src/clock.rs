//! Clocks that are not the true time: slow or fast, and outside of the assumptions also stepped.

/// One machine's clock, read at a true time. All times are nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    /// From this true time on it runs; before, it stands still.
    since: u64,
    /// What it shows then.
    shown: u64,
    /// What it shows for each million of true nanoseconds.
    rate: u64,
}

const EVEN: u64 = 1_000_000;

impl Clock {
    /// Fast by so many parts per million.
    pub(crate) const fn new(shown: u64, ppm: i64) -> Self {
        Self {
            since: 0,
            shown,
            rate: EVEN.saturating_add_signed(ppm),
        }
    }

    pub(crate) const fn read(&self, at: u64) -> u64 {
        self.shown + at.saturating_sub(self.since) * self.rate / EVEN
    }

    /// From then on it does not stand still.
    pub(crate) fn runs_from(&self, now: u64) -> u64 {
        self.since.max(now)
    }

    /// The first true time at which it shows as much.
    pub(crate) fn when(&self, shown: u64) -> u64 {
        let Some(ahead) = shown.checked_sub(self.shown) else {
            return self.since;
        };
        let Some(scaled) = ahead.checked_mul(EVEN) else {
            return u64::MAX;
        };
        self.since.saturating_add(scaled.div_ceil(self.rate))
    }

    pub(crate) const fn step_forward(&mut self, at: u64, step: u64) {
        self.shown = self.read(at) + step;
        self.since = at;
    }

    pub(crate) const fn step_back(&mut self, at: u64, step: u64) {
        self.shown = self.read(at).saturating_sub(step);
        self.since = at;
    }

    /// What a step back is for a clock that never goes back: it stands still.
    pub(crate) const fn stall(&mut self, at: u64, time: u64) {
        self.shown = self.read(at);
        self.since = at + time;
    }
}
