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

use super::{
    fact::{End, Over},
    log,
    subject::Subject,
};
use crate::health::{self, NodeStatus};

/// A wait or a hold is long if so small a part of what it may take is left.
const LITTLE: u32 = 5;

/// So many nanoseconds at least are between two events that can come in thousands.
const SELDOM: u64 = 1_000_000_000;

/// Reports what happens in one node set.
#[derive(Debug)]
pub(crate) struct Observer {
    /// The addresses of all nodes.
    node_set: String,
    addresses: Vec<Arc<str>>,
    reported: Mutex<Reported>,
    long_waits: Seldom,
    long_holds: Seldom,
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

/// How far a section has come.
#[derive(Debug, Default)]
pub(crate) struct Course {
    stage: Stage,
    params: Option<LockParams>,
    span: log::Span,
}

#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    /// Nobody watches, or it is over.
    #[default]
    Closed,
    Waiting {
        since: Instant,
    },
    Held {
        since: Instant,
    },
}

impl Course {
    /// Its end is to be reported.
    pub(crate) const fn is_open(&self) -> bool {
        !matches!(self.stage, Stage::Closed)
    }

    /// What is done until the value is dropped is part of the section.
    pub(crate) fn enter(&self) -> log::Entered<'_> {
        self.span.enter()
    }
}

impl Observer {
    pub(crate) fn new(addresses: &[Arc<str>]) -> Self {
        Self {
            node_set: addresses.join(","),
            addresses: addresses.to_vec(),
            reported: Mutex::new(Reported {
                states: vec![None; addresses.len()],
                quorum: Quorum::NotYet,
            }),
            long_waits: Seldom::default(),
            long_holds: Seldom::default(),
        }
    }

    /// Somebody watches.
    pub(crate) fn is_on(&self) -> bool {
        log::is_on()
    }

    // ---- sections

    pub(crate) fn asked(&self, subject: &Subject, params: &LockParams, since: Instant) -> Course {
        if !self.is_on() {
            return Course::default();
        }
        Course {
            stage: Stage::Waiting { since },
            params: Some(*params),
            span: log::acquire(subject, &self.node_set),
        }
    }

    pub(crate) fn granted(
        &self,
        course: &mut Course,
        subject: &Subject,
        (token, attempts): (Token, u32),
        now: Instant,
    ) {
        let (Stage::Waiting { since }, Some(params)) = (course.stage, &course.params) else {
            return;
        };
        let wait = now.since(since);
        course.span.end_acquire("granted", wait, attempts);
        let is_long = params.wait.saturating_sub(wait) < params.wait / LITTLE;
        if is_long && self.long_waits.is_due(now) {
            log::long_wait(subject, &self.node_set, wait, params.wait);
        }
        course.span = log::hold(subject, &self.node_set, token);
        course.stage = Stage::Held { since: now };
    }

    pub(crate) fn failed(
        &self,
        course: &mut Course,
        _subject: &Subject,
        (outcome, attempts): (&'static str, u32),
        now: Instant,
    ) {
        if let Stage::Waiting { since } = course.stage {
            let wait = now.since(since);
            course.span.end_acquire(outcome, wait, attempts);
            *course = Course::default();
        }
    }

    /// The caller lets go, whether it has had the lock or not.
    pub(crate) fn ended(&self, course: &mut Course, subject: &Subject, token: Token, end: End) {
        let Stage::Held { since } = course.stage else {
            return self.failed(course, subject, ("cancelled", 0), end.at);
        };
        let hold = end.at.since(since);
        if let Some(over) = end.over {
            self.over(subject, token, over);
        } else if let Some(limit) = course.params.as_ref().and_then(longest_hold) {
            let left = match course.params {
                Some(LockParams { renew: Some(_), .. }) => limit.saturating_sub(hold),
                _ => end.left,
            };
            if left < limit / LITTLE && self.long_holds.is_due(end.at) {
                log::long_hold(subject, &self.node_set, hold, limit);
            }
        }
        course.span.end_hold(end.over, hold);
        *course = Course::default();
    }

    /// A lease was extended. `late`: what was left of it, if that was little.
    pub(crate) fn renewed(&self, subject: &Subject, token: Token, late: Option<Duration>) {
        if let Some(left) = late {
            log::renewed_late(subject, &self.node_set, token, left);
        }
    }

    /// A lease has ended under its holder. The first report counts.
    pub(crate) fn over(&self, subject: &Subject, token: Token, over: Over) {
        if subject.is_over_now() {
            log::over(subject, &self.node_set, token, over);
        }
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

/// The longest time that a section can have its lock, if there is one.
fn longest_hold(params: &LockParams) -> Option<Duration> {
    match params.renew {
        Some(_) => params.max_hold,
        None => Some(params.lease),
    }
}
