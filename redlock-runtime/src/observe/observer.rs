//! What is kept of a node set and its sections for those who watch.

use std::{
    mem::discriminant,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use redlock_protocol::{self as protocol, Instant, NodeState};
use tracing::{Span, span::Entered};

#[cfg(feature = "test-util")]
use super::journal::Journal;
#[cfg(feature = "metrics")]
use super::meter;
use super::{fact::End, log};
use crate::{error::LockError, health::NodeStatus, status::Status};

/// The shortest time between two events of one kind that say that a lease has ended: a flush of the servers
/// ends thousands at once. The metrics count all of them.
const BETWEEN_ENDS: Duration = Duration::from_secs(1);

/// The shortest time between two events that say that a node is slow, or that a task may wait for itself.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(60);

/// Reports what happens in one node set.
#[derive(Debug)]
pub(crate) struct Observer {
    /// The addresses of all nodes.
    node_set: Arc<str>,
    addresses: Vec<Arc<str>>,
    reported: Mutex<Reported>,
    /// Of each kind.
    ends: [Seldom; 9],
    self_waits: Seldom,
    /// Of each node.
    slow_replies: Vec<Seldom>,
    /// A reply that takes longer than this is no vote, unless a lock has a node timeout of its own.
    node_timeout: Duration,
    #[cfg(feature = "metrics")]
    meter: meter::Meter,
    /// Of the node set of a test.
    #[cfg(feature = "test-util")]
    pub(crate) journal: Option<Journal>,
}

/// When an event was written last that would otherwise come too often, in nanoseconds.
#[derive(Debug, Default)]
struct Seldom(AtomicU64);

/// What has been reported of the nodes.
#[derive(Debug)]
struct Reported {
    states: Vec<Option<NodeState>>,
    /// Whether there is a quorum, once there has been one.
    has_quorum: Option<bool>,
}

/// How far a section has come; nothing if no subscriber watches, or it is over. In a box, because sections are
/// part of the futures of their callers.
#[derive(Debug, Default)]
pub(crate) struct Course(Option<Box<Open>>);

#[derive(Debug)]
struct Open {
    /// Since when it has its lock.
    held: Option<Instant>,
    span: Span,
    #[cfg(feature = "metrics")]
    meter: Arc<meter::OfSection>,
}

impl Course {
    /// Its end must still be reported.
    pub(crate) const fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// What is done until the value is dropped is part of the section.
    pub(crate) fn enter(&self) -> Option<Entered<'_>> {
        Some(self.0.as_ref()?.span.enter())
    }
}

impl Observer {
    /// `name`: what the node set is called in metrics.
    pub(crate) fn new(
        addresses: &[Arc<str>],
        #[cfg_attr(not(feature = "metrics"), expect(unused_variables))] name: &str,
        node_timeout: Duration,
        #[cfg_attr(not(feature = "test-util"), expect(unused_variables))] is_for_a_test: bool,
    ) -> Self {
        Self {
            node_set: addresses.join(",").into(),
            addresses: addresses.to_vec(),
            reported: Mutex::new(Reported {
                states: vec![None; addresses.len()],
                has_quorum: None,
            }),
            ends: Default::default(),
            self_waits: Seldom::default(),
            slow_replies: addresses.iter().map(|_| Seldom::default()).collect(),
            node_timeout,
            #[cfg(feature = "metrics")]
            meter: meter::Meter::new(name),
            #[cfg(feature = "test-util")]
            journal: is_for_a_test.then(Journal::default),
        }
    }

    /// A subscriber or a recorder may watch.
    pub(crate) fn is_on(&self) -> bool {
        cfg!(feature = "metrics") || log::is_on()
    }

    // ---- sections

    pub(crate) fn asked(&self, status: &Arc<Status>) -> Course {
        let is_watched = self.is_on();
        #[cfg(feature = "test-util")]
        let is_watched = is_watched || self.journal.is_some();
        if !is_watched {
            return Course::default();
        }
        #[cfg(feature = "test-util")]
        if let Some(journal) = &self.journal {
            journal.asked(status);
        }
        let open = Open {
            held: None,
            span: log::acquire(status, &self.node_set),
            #[cfg(feature = "metrics")]
            meter: self.meter.of(status.name),
        };
        #[cfg(feature = "metrics")]
        open.meter.waiting.increment(1.0);
        Course(Some(Box::new(open)))
    }

    /// The question for the lock is over.
    pub(crate) fn answered(
        &self,
        course: &mut Course,
        status: &Status,
        outcome: &Result<(), LockError>,
        now: Instant,
    ) {
        let Some(open) = &mut course.0 else {
            return;
        };
        #[cfg(feature = "test-util")]
        if let Some(journal) = &self.journal {
            journal.answered(status, outcome, now);
        }
        let end = outcome.as_ref().map_or_else(End::from, |()| End::Granted);
        open.answered(status, (end, status.attempts()), now);
        if outcome.is_ok() {
            open.span = log::hold(status, &self.node_set);
            open.held = Some(now);
        } else {
            course.0 = None;
        }
    }

    /// When a section ends whose caller is about to let go, and what has ended its lease before. To be called before the
    /// status is told.
    pub(crate) fn ends(&self, status: &Status, now: Instant) -> (Instant, Option<End>) {
        #[cfg(feature = "test-util")]
        if let Some(journal) = &self.journal {
            journal.ended(status, now);
        }
        (now, End::of_lease(status, now))
    }

    /// The caller has let go.
    pub(crate) fn ended(
        &self,
        course: &mut Course,
        status: &Status,
        (now, over): (Instant, Option<End>),
    ) {
        let Some(open) = course.0.take() else {
            return;
        };
        let Some(since) = open.held else {
            open.answered(status, (End::Cancelled, 0), now);
            return;
        };
        let hold = now.since(since);
        #[cfg(feature = "metrics")]
        open.meter.ended(hold);
        if let Some(over) = over
            && status.is_over_now()
        {
            self.over(status, over, now);
        }
        log::end_hold(&open.span, over, hold);
    }

    /// A lease was extended. `late`: what was left of it, if that was little.
    pub(crate) fn renewed(&self, status: &Status, late: Option<Duration>) {
        #[cfg(feature = "metrics")]
        self.meter.of(status.name).renewals.increment(1);
        if let Some(left) = late {
            log::renewed_late(status, &self.node_set, left);
        }
    }

    /// The task that waits for this lock has acquired a guard of it, and may have that still.
    pub(crate) fn self_wait(&self, status: &Status, now: Instant) {
        if self.self_waits.is_due(BETWEEN_WARNINGS, now) {
            log::self_wait(status, &self.node_set);
        }
    }

    /// A lease has ended under its holder.
    pub(crate) fn over(&self, status: &Status, over: End, now: Instant) {
        #[cfg(feature = "metrics")]
        self.meter.of(status.name).over(over);
        if self.ends[over as usize].is_due(BETWEEN_ENDS, now) {
            log::over(status, &self.node_set, over);
        }
    }

    // ---- nodes

    /// What is known of the nodes: their states, how long each took to reply last, and how many locks do not stand
    /// on all of them. `states` is asked what they are now, because reports of several threads may overtake
    /// each other.
    pub(crate) fn nodes_are(
        &self,
        states: impl Fn() -> Vec<Option<NodeState>>,
        (round_trips, under_replicated): (&[Option<Duration>], usize),
        now: Instant,
    ) {
        let (changed, voting, quorum) = {
            let reported = self.reported.lock();
            let mut reported = reported.unwrap_or_else(PoisonError::into_inner);
            reported.take_in(states())
        };
        for (node, state) in changed {
            let node = NodeStatus::new(node, state, &self.addresses, now);
            log::node(&node, &self.node_set, voting);
        }
        if let Some(has_quorum) = quorum {
            log::quorum(has_quorum, &self.node_set, voting, self.addresses.len());
        }
        let states = states();
        #[cfg(feature = "metrics")]
        self.meter.node_set(self::voting(&states), under_replicated);
        #[cfg(not(feature = "metrics"))]
        let _ = under_replicated;
        let nodes = self.addresses.iter().zip(states).zip(round_trips);
        for (((address, state), &round_trip), seldom) in nodes.zip(&self.slow_replies) {
            if let (Some(NodeState::Up), Some(round_trip)) = (&state, round_trip)
                && round_trip > self.node_timeout
                && seldom.is_due(BETWEEN_WARNINGS, now)
            {
                log::slow(address, &self.node_set, round_trip);
            }
            #[cfg(feature = "metrics")]
            if let Some(state) = state {
                meter::node(address, &state, round_trip);
            }
        }
    }
}

impl Open {
    /// Its question for the lock is over.
    fn answered(&self, status: &Status, (outcome, attempts): (End, u32), now: Instant) {
        let wait = now.since(status.since);
        log::end_acquire(&self.span, outcome, wait, attempts);
        #[cfg(feature = "metrics")]
        self.meter.answered(outcome, wait, attempts);
    }
}

impl Seldom {
    fn is_due(&self, every: Duration, now: Instant) -> bool {
        let (now, every) = (now.as_nanos(), every.as_nanos());
        let is_due = |last: u64| last == 0 || u128::from(now.saturating_sub(last)) >= every;
        let next = |last| is_due(last).then_some(now);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .is_ok()
    }
}

impl Reported {
    /// The nodes whose states are news, how many vote, and whether there is a quorum, if that is news.
    fn take_in(
        &mut self,
        states: Vec<Option<NodeState>>,
    ) -> (Vec<(usize, NodeState)>, usize, Option<bool>) {
        let nodes = states.iter().zip(&self.states).enumerate();
        let changed = nodes.filter_map(|(node, (after, before))| {
            let after = after
                .as_ref()
                .filter(|after| is_news(before.as_ref(), after));
            Some((node, after?.clone()))
        });
        let changed = changed.collect();
        let (voting, has_quorum) = voting(&states);
        let is_news = self.has_quorum.is_some_and(|before| before != has_quorum);
        let quorum = is_news.then_some(has_quorum);
        if has_quorum || is_news {
            self.has_quorum = Some(has_quorum);
        }
        self.states = states;
        (changed, voting, quorum)
    }
}

/// How many nodes vote, and whether they are a majority.
fn voting(states: &[Option<NodeState>]) -> (usize, bool) {
    let is_up = |state: &&Option<NodeState>| matches!(state, Some(NodeState::Up));
    let voting = states.iter().filter(is_up).count();
    (voting, voting >= protocol::majority(states.len()))
}

/// What a quarantine turns out to be shorter by, to be news.
const SHORTER: Duration = Duration::from_secs(1);

/// Not so if only the text is another one. That a node votes from the beginning is what is expected.
fn is_news(before: Option<&NodeState>, after: &NodeState) -> bool {
    use NodeState::Quarantined;
    match (before, after) {
        // As long as any key lives, until the other nodes have told how long the forgotten ones did.
        (Some(Quarantined { until: before, .. }), Quarantined { until: after, .. }) => {
            before.since(*after) > SHORTER
        }
        (Some(before), after) => discriminant(before) != discriminant(after),
        (None, after) => !matches!(after, NodeState::Up),
    }
}

#[cfg(test)]
mod tests {
    use redlock_protocol::QuarantineReason;

    use super::*;

    #[test]
    fn the_time_of_a_quarantine_is_reported_again_if_it_is_shorter() {
        let quarantined = |seconds| NodeState::Quarantined {
            reason: QuarantineReason::Restarted,
            until: Instant::from_nanos(0).after(Duration::from_secs(seconds)),
        };
        let long = quarantined(66);
        assert!(is_news(None, &long) && is_news(Some(&NodeState::Up), &long));
        assert!(is_news(Some(&long), &quarantined(5)));
        for same in [65, 66, 90] {
            assert!(!is_news(Some(&long), &quarantined(same)));
        }
    }
}
