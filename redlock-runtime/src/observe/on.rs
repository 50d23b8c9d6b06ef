//! What is kept of a node set and its sections for those who watch.

use std::{
    mem::discriminant,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use redlock_protocol::{self as protocol, Instant, LockParams, NodeState, Token};

#[cfg(feature = "metrics")]
use super::meter;
use super::{
    fact::{End, Outcome, Over},
    log,
    subject::Subject,
};
use crate::health::{self, NodeStatus};

/// A wait or a hold is long if so small a part of what it may take is left.
const LITTLE: u32 = 5;

/// So many nanoseconds at least are between two events that can come in thousands.
const SELDOM: u64 = 60_000_000_000;

/// Reports what happens in one node set.
#[derive(Debug)]
pub(crate) struct Observer {
    /// The addresses of all nodes.
    node_set: Arc<str>,
    addresses: Vec<Arc<str>>,
    reported: Mutex<Reported>,
    long_waits: Seldom,
    long_holds: Seldom,
    #[cfg(feature = "metrics")]
    meter: meter::Meter,
}

/// When something was written last that can come in thousands, in nanoseconds.
#[derive(Debug, Default)]
struct Seldom(AtomicU64);

/// What has been reported of the nodes.
#[derive(Debug)]
struct Reported {
    states: Vec<Option<NodeState>>,
    quorum: Quorum,
}

#[derive(Clone, Copy, Debug)]
enum Quorum {
    /// Since the node set was made.
    NotYet,
    There,
    Lost,
}

/// How far a section has come; nothing if no subscriber watches, or it is over. In a box, because sections are
/// part of the futures of their callers.
#[derive(Debug, Default)]
pub(crate) struct Course(Option<Box<Open>>);

#[derive(Debug)]
struct Open {
    stage: Stage,
    /// How long it waits at the most.
    wait: Duration,
    /// How long it can have its lock, if there is a limit.
    limit: Option<Duration>,
    renews: bool,
    span: log::Span,
    #[cfg(feature = "metrics")]
    meter: Arc<meter::OfSection>,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Waiting { since: Instant },
    Held { since: Instant },
}

impl Course {
    /// Its end is to be reported.
    pub(crate) const fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// What is done until the value is dropped is part of the section.
    pub(crate) fn enter(&self) -> Option<log::Entered<'_>> {
        Some(self.0.as_ref()?.span.enter())
    }
}

impl Observer {
    pub(crate) fn new(addresses: &[Arc<str>]) -> Self {
        Self {
            node_set: addresses.join(",").into(),
            addresses: addresses.to_vec(),
            reported: Mutex::new(Reported {
                states: vec![None; addresses.len()],
                quorum: Quorum::NotYet,
            }),
            long_waits: Seldom::default(),
            long_holds: Seldom::default(),
            #[cfg(feature = "metrics")]
            meter: meter::Meter::new(),
        }
    }

    /// A subscriber or a recorder may watch.
    pub(crate) fn is_on(&self) -> bool {
        cfg!(feature = "metrics") || log::is_on()
    }

    // ---- sections

    pub(crate) fn asked(&self, subject: &Subject, params: &LockParams, since: Instant) -> Course {
        if !self.is_on() {
            return Course::default();
        }
        let open = Open {
            stage: Stage::Waiting { since },
            wait: params.wait,
            limit: match params.renew {
                Some(_) => params.max_hold,
                None => Some(params.lease),
            },
            renews: params.renew.is_some(),
            span: log::acquire(subject, &self.node_set),
            #[cfg(feature = "metrics")]
            meter: self.meter.of(subject.name),
        };
        #[cfg(feature = "metrics")]
        open.meter.asked();
        Course(Some(Box::new(open)))
    }

    pub(crate) fn granted(
        &self,
        course: &mut Course,
        subject: &Subject,
        (token, attempts): (Token, u32),
        now: Instant,
    ) {
        let Some(open) = &mut course.0 else {
            return;
        };
        let Some(wait) = open.answered((Outcome::Granted, attempts), now) else {
            return;
        };
        let is_long = open.wait.saturating_sub(wait) < open.wait / LITTLE;
        if is_long && self.long_waits.is_due(now) {
            log::long_wait(subject, &self.node_set, wait, open.wait);
        }
        open.span = log::hold(subject, &self.node_set, token);
        open.stage = Stage::Held { since: now };
    }

    pub(crate) fn failed(&self, course: &mut Course, outcome: (Outcome, u32), now: Instant) {
        if let Some(mut open) = course.0.take() {
            open.answered(outcome, now);
        }
    }

    /// The caller lets go, whether it has had the lock or not.
    pub(crate) fn ended(&self, course: &mut Course, subject: &Subject, token: Token, end: End) {
        let Some(mut open) = course.0.take() else {
            return;
        };
        let Stage::Held { since } = open.stage else {
            open.answered((Outcome::Cancelled, 0), end.at);
            return;
        };
        let hold = end.at.since(since);
        #[cfg(feature = "metrics")]
        open.meter.ended(hold);
        if let Some(over) = end.over {
            if end.is_news {
                self.over(subject, token, over);
            }
        } else if let Some(limit) = open.limit {
            let left = match open.renews {
                true => limit.saturating_sub(hold),
                false => end.left,
            };
            if left < limit / LITTLE && self.long_holds.is_due(end.at) {
                log::long_hold(subject, &self.node_set, hold, limit);
            }
        }
        open.span.end_hold(end.over, hold);
    }

    /// A lease was extended. `late`: what was left of it, if that was little.
    pub(crate) fn renewed(&self, subject: &Subject, token: Token, late: Option<Duration>) {
        #[cfg(feature = "metrics")]
        self.meter.of(subject.name).renewed();
        if let Some(left) = late {
            log::renewed_late(subject, &self.node_set, token, left);
        }
    }

    /// A lease has ended under its holder.
    pub(crate) fn over(&self, subject: &Subject, token: Token, over: Over) {
        #[cfg(feature = "metrics")]
        self.meter.of(subject.name).over(over);
        log::over(subject, &self.node_set, token, over);
    }

    // ---- nodes

    /// States of nodes may have changed. `states` is asked what they are now, because reports of several
    /// threads may overtake each other.
    pub(crate) fn nodes_changed(
        &self,
        states: impl FnOnce() -> Vec<Option<NodeState>>,
        now: Instant,
    ) {
        let (changed, voting, quorum) = {
            let reported = self.reported.lock();
            let mut reported = reported.unwrap_or_else(PoisonError::into_inner);
            reported.take_in(states())
        };
        for (node, state) in changed {
            let state = health::NodeState::new(state, &self.addresses, now);
            let node = NodeStatus::new(Arc::clone(&self.addresses[node]), state);
            log::node(&node, &self.node_set, voting);
        }
        if let Some(has_quorum) = quorum {
            log::quorum(has_quorum, &self.node_set, voting, self.addresses.len());
        }
    }

    /// What can be read of the nodes at any time: their states, and how long each took to reply last.
    #[cfg(feature = "metrics")]
    pub(crate) fn nodes_are(
        &self,
        states: Vec<Option<NodeState>>,
        round_trips: &[Option<Duration>],
        now: Instant,
    ) {
        let is_up = |state: &&Option<NodeState>| matches!(state, Some(NodeState::Up));
        let voting = states.iter().filter(is_up).count();
        let has_quorum = voting >= protocol::majority(states.len());
        meter::quorum(&self.node_set, voting, has_quorum);
        let nodes = self.addresses.iter().zip(states).zip(round_trips);
        for ((address, state), round_trip) in nodes {
            if let Some(state) = state {
                let state = health::NodeState::new(state, &self.addresses, now);
                meter::node(address, &state, *round_trip);
            }
        }
    }
}

impl Open {
    /// Its question for the lock is over. After how long, if it has not been before.
    fn answered(&mut self, (outcome, attempts): (Outcome, u32), now: Instant) -> Option<Duration> {
        let Stage::Waiting { since } = self.stage else {
            return None;
        };
        let wait = now.since(since);
        self.span.end_acquire(outcome, wait, attempts);
        #[cfg(feature = "metrics")]
        self.meter.answered(outcome, wait, attempts);
        Some(wait)
    }
}

impl Seldom {
    fn is_due(&self, now: Instant) -> bool {
        let now = now.as_nanos();
        let next = |last| (last == 0 || now.saturating_sub(last) >= SELDOM).then_some(now);
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
        let is_up = |state: &&Option<NodeState>| matches!(state, Some(NodeState::Up));
        let voting = states.iter().filter(is_up).count();
        let has_quorum = voting >= protocol::majority(states.len());
        let quorum = match (has_quorum, self.quorum) {
            (true, Quorum::Lost) => Some(true),
            (false, Quorum::There) => Some(false),
            _ => None,
        };
        if has_quorum {
            self.quorum = Quorum::There;
        } else if quorum.is_some() {
            self.quorum = Quorum::Lost;
        }
        self.states = states;
        (changed, voting, quorum)
    }
}

/// Not so if only the text is another one. That a node votes from the beginning is what is expected.
fn is_news(before: Option<&NodeState>, after: &NodeState) -> bool {
    match before {
        Some(before) => discriminant(before) != discriminant(after),
        None => !matches!(after, NodeState::Up),
    }
}
