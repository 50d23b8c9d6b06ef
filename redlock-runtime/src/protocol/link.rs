//! The connection to one node: when to give one up, and when to make the next.

use std::{sync::Arc, time::Duration};

use super::{
    message::{ConnectionId, Fault},
    time::Instant,
};

/// The first pause before a new connection; doubled with every failure.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The longest pause: a node that comes back votes again this soon, and a dead one costs no
/// more than one connection attempt in this time.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A node that was slow is tried again after this time without an answer from it.
const PACE_LASTS: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Link {
    state: State,
    /// The one in use or being made.
    pub(super) connection: Option<ConnectionId>,
    /// Connections in a row that brought no answer.
    failures: u32,
    /// Requests without an answer yet.
    pub(super) outstanding: usize,
    pace: Option<Pace>,
    pub(super) server: Option<Arc<str>>,
}

/// How long the node takes to answer.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Of the last answers; older ones count for less and less.
    mean: Duration,
    heard: Instant,
}

#[derive(Debug)]
enum State {
    New,
    Connecting {
        since: Instant,
    },
    /// Connected; whether it may vote is being found out.
    Verifying,
    /// Connected, but it may have lost its memory: no votes for now.
    Quarantined {
        until: Instant,
    },
    /// Connected: it votes.
    Up,
    Waiting {
        until: Instant,
        reason: Arc<str>,
    },
}

impl Link {
    pub(super) const fn new() -> Self {
        Self {
            state: State::New,
            connection: None,
            failures: 0,
            outstanding: 0,
            pace: None,
            server: None,
        }
    }

    /// How long it takes to answer as a rule, where that was seen lately.
    pub(super) fn usual_delay(&self, now: Instant) -> Option<Duration> {
        let pace = self.pace?;
        (now.since(pace.heard) < PACE_LASTS).then_some(pace.mean)
    }

    pub(super) const fn is_up(&self) -> bool {
        matches!(self.state, State::Up)
    }

    pub(super) const fn is_connected(&self) -> bool {
        matches!(
            self.state,
            State::Verifying | State::Quarantined { .. } | State::Up
        )
    }

    /// Connecting for the first time since it was well, or being verified.
    pub(super) const fn is_settling(&self) -> bool {
        match self.state {
            State::New | State::Verifying => true,
            State::Connecting { .. } => self.failures == 0,
            State::Quarantined { .. } | State::Up | State::Waiting { .. } => false,
        }
    }

    pub(super) const fn is_verifying(&self) -> bool {
        matches!(self.state, State::Verifying)
    }

    /// Why no vote can be asked for; `None` if one can, now or once the node is verified.
    pub(super) fn fault(&self, now: Instant) -> Option<Fault> {
        match &self.state {
            State::Up | State::Verifying => None,
            State::Quarantined { until } => Some(Fault::Quarantined(until.since(now))),
            State::New | State::Connecting { .. } => {
                Some(Fault::Unreachable("not connected yet".into()))
            }
            State::Waiting { reason, .. } => Some(Fault::Unreachable(Arc::clone(reason))),
        }
    }

    /// When a connection attempt is given up, or the next one made.
    pub(super) fn next_due(&self, connect_timeout: Duration) -> Option<Instant> {
        match self.state {
            State::Connecting { since } => Some(since.after(connect_timeout)),
            State::Waiting { until, .. } | State::Quarantined { until } => Some(until),
            State::New | State::Verifying | State::Up => None,
        }
    }

    pub(super) fn is_overdue(&self, connect_timeout: Duration, now: Instant) -> bool {
        matches!(self.state, State::Connecting { since } if now >= since.after(connect_timeout))
    }

    pub(super) fn may_connect(&self, now: Instant) -> bool {
        matches!(self.state, State::Waiting { until, .. } if now >= until)
    }

    pub(super) fn has_served_quarantine(&self, now: Instant) -> bool {
        matches!(self.state, State::Quarantined { until } if now >= until)
    }

    pub(super) fn on_verifying(&mut self) {
        self.state = State::Verifying;
    }

    pub(super) fn on_quarantined(&mut self, until: Instant) {
        self.state = State::Quarantined { until };
    }

    pub(super) fn on_admitted(&mut self) {
        self.state = State::Up;
    }

    pub(super) fn on_connecting(&mut self, connection: ConnectionId, now: Instant) {
        self.connection = Some(connection);
        self.state = State::Connecting { since: now };
    }

    /// False for a connection that is not awaited any more.
    pub(super) fn on_connected(&mut self, server: Option<Arc<str>>) -> bool {
        if !matches!(self.state, State::Connecting { .. }) {
            return false;
        }
        self.state = State::Verifying;
        self.server = server;
        true
    }

    /// A connection is worth something once it has answered: only then is the pause short again,
    /// so that a server that accepts and drops connections is not asked in a busy loop.
    pub(super) fn on_answer(&mut self, delay: Duration, now: Instant) {
        self.failures = 0;
        self.outstanding = self.outstanding.saturating_sub(1);
        let before = self.usual_delay(now).unwrap_or(delay);
        self.pace = Some(Pace {
            mean: (7 * before + delay) / 8,
            heard: now,
        });
    }

    /// Starts the pause before the next attempt: doubled each time, and spread by half of
    /// itself, so that a fleet does not come back in one burst.
    pub(super) fn on_down(&mut self, reason: Arc<str>, random: u128, now: Instant) {
        let pause = FIRST_PAUSE
            .saturating_mul(1 << self.failures.min(10))
            .min(LONGEST_PAUSE);
        let spread = spread(pause / 2, random);
        self.failures = self.failures.saturating_add(1);
        self.outstanding = 0;
        self.pace = None;
        self.server = None;
        self.connection = None;
        self.state = State::Waiting {
            until: now.after(pause / 2 + spread),
            reason,
        };
    }
}

/// A span from zero up to `span`, as even as milliseconds need it.
pub(super) fn spread(span: Duration, random: u128) -> Duration {
    span.mul_f64((random as u32) as f64 / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_longest_and_an_answer_makes_them_short_again() {
        let now = Instant::from_nanos(0);
        let pause = |link: &Link| link.next_due(Duration::ZERO).unwrap().since(now);
        let mut link = Link::new();
        link.on_down("refused".into(), u128::MAX, now);
        assert_eq!(pause(&link), FIRST_PAUSE);
        for _ in 0..20 {
            link.on_down("refused".into(), u128::MAX, now);
        }
        assert_eq!(pause(&link), LONGEST_PAUSE);
        link.on_connecting(ConnectionId(1), now);
        assert!(link.on_connected(None));
        link.on_answer(Duration::ZERO, now);
        link.on_down("reset".into(), u128::MAX, now);
        assert_eq!(pause(&link), FIRST_PAUSE);
    }
}
