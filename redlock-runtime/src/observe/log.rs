//! Spans and events by `tracing`: names, fields, levels and texts.
//!
//! `WARN` is for what an operator should look at, `INFO` for the end of such a thing, `DEBUG` for spans. A
//! day on which nothing goes wrong writes nothing above `DEBUG`.

use std::{fmt::Display, time::Duration};

use tracing::{Level, field, level_filters::LevelFilter};

use super::fact::{End, Start};
use crate::{
    health::{self, NodeState, NodeStatus},
    key::shown,
    status::Status,
};

/// The target of everything.
const TARGET: &str = "redlock_runtime";

/// An event outside all spans: the thread on which it is written may be at work for another section. Its name
/// is a field, too, because subscribers do not write the name of an event.
macro_rules! event {
    ($level:ident, $name:literal, { $($fields:tt)* }, $($text:tt)+) => {
        tracing::event!(
            name: $name, target: TARGET, parent: None, Level::$level,
            { event = $name, $($fields)* }, $($text)+
        )
    };
}

/// A subscriber may listen.
pub(super) fn is_on() -> bool {
    LevelFilter::current() != LevelFilter::OFF
}

// ---- sections

/// Of an acquisition, or of a section that has its lock.
#[derive(Debug)]
pub(super) struct Span(tracing::Span);

/// The span is entered for as long as this lives.
#[derive(Debug)]
pub(crate) struct Entered<'a>(#[expect(dead_code, reason = "dropped")] tracing::span::Entered<'a>);

pub(super) fn acquire(status: &Status, node_set: &str) -> Span {
    Span(tracing::debug_span!(
        target: TARGET,
        "redlock.acquire",
        section = status.name,
        key = &*status.key,
        node_set,
        outcome = field::Empty,
        wait_seconds = field::Empty,
        attempts = field::Empty,
    ))
}

pub(super) fn hold(status: &Status, node_set: &str) -> Span {
    Span(tracing::debug_span!(
        target: TARGET,
        "redlock.hold",
        section = status.name,
        key = &*status.key,
        node_set,
        token = status.token().0,
        outcome = field::Empty,
        hold_seconds = field::Empty,
    ))
}

impl Span {
    pub(super) fn enter(&self) -> Entered<'_> {
        Entered(self.0.enter())
    }

    pub(super) fn end_acquire(&self, outcome: End, wait: Duration, attempts: u32) {
        self.0.record("outcome", outcome.label());
        self.0.record("wait_seconds", wait.as_secs_f64());
        self.0.record("attempts", attempts);
    }

    pub(super) fn end_hold(&self, over: Option<End>, hold: Duration) {
        let end = over.unwrap_or(End::Released);
        self.0.record("outcome", end.label());
        self.0.record("hold_seconds", hold.as_secs_f64());
    }
}

impl Default for Span {
    fn default() -> Self {
        Self(tracing::Span::none())
    }
}

pub(super) fn renewed_late(status: &Status, node_set: &str, left: Duration) {
    event!(WARN, "redlock.renewed_late", {
        section = status.name, key = &*status.key, node_set,
        token = status.token().0, left_seconds = left.as_secs_f64(),
    }, "redlock: the lease of `{}` was renewed when {left:.1?} were left", shown(&status.key));
}

pub(super) fn self_wait(status: &Status, node_set: &str) {
    event!(WARN, "redlock.self_wait", {
        section = status.name, key = &*status.key, node_set,
    }, "redlock: a task waits for `{}` and has acquired the guard that holds it; if no other code drops \
        that guard, the task waits for itself", shown(&status.key));
}

pub(super) fn over(status: &Status, node_set: &str, over: End) {
    let (section, key, token) = (status.name, &*status.key, status.token().0);
    let shown = shown(key);
    match over {
        End::Lost => event!(WARN, "redlock.lost", { section, key, node_set, token },
            "redlock: `{shown}` was lost: no majority of nodes is known to have its key any more"),
        End::Stopped => event!(WARN, "redlock.stopped", { section, key, node_set, token },
            "redlock: the holder of `{shown}` was cut off, because the node set was shut down"),
        _ => event!(WARN, "redlock.expired", { section, key, node_set, token },
            "redlock: the lease of `{shown}` ended before its holder let go"),
    }
}

// ---- nodes

pub(super) fn node(status: &NodeStatus, node_set: &str, voting: usize) {
    let node = status.address();
    macro_rules! event_of_node {
        ($level:ident, $name:literal) => {
            event!($level, $name, { node, node_set, voting }, "redlock: {status}")
        };
    }
    match status.state() {
        NodeState::Up => event_of_node!(INFO, "redlock.node.up"),
        NodeState::Down { .. } => event_of_node!(WARN, "redlock.node.down"),
        NodeState::Quarantined { .. } => event_of_node!(WARN, "redlock.node.quarantined"),
        NodeState::ClockAhead { .. } => event_of_node!(WARN, "redlock.node.clock_ahead"),
        NodeState::Refuses { .. } => event_of_node!(WARN, "redlock.node.refuses"),
        NodeState::SameServer { .. } => event_of_node!(WARN, "redlock.node.same_server"),
        NodeState::Evicts { .. } => event_of_node!(WARN, "redlock.node.evicts"),
        NodeState::OtherMaxLease { .. } => event_of_node!(WARN, "redlock.node.other_max_lease"),
        NodeState::OtherFormat { .. } => event_of_node!(WARN, "redlock.node.other_format"),
    }
}

pub(super) fn slow(node: &str, node_set: &str, round_trip: Duration) {
    event!(WARN, "redlock.node.slow", {
        node, node_set, round_trip_seconds = round_trip.as_secs_f64(),
    }, "redlock: {node} took {round_trip:.1?} to reply, longer than the node timeout, so locks did \
        not count its vote");
}

pub(super) fn quorum(is_there: bool, node_set: &str, voting: usize, nodes: usize) {
    let vote = health::vote(voting, nodes);
    if is_there {
        event!(INFO, "redlock.quorum.regained", { node_set, voting, nodes },
            "redlock: {vote}, so locks can be had again");
    } else {
        event!(ERROR, "redlock.quorum.lost", { node_set, voting, nodes },
            "redlock: {vote}, so no lock can be had");
    }
}

// ---- the start of a node set

pub(crate) fn start(what: Start, text: &dyn Display) {
    match what {
        Start::Embedded => event!(WARN, "redlock.start.embedded", {}, "redlock: {text}"),
        Start::EvenNumber => event!(WARN, "redlock.start.even_number", {}, "redlock: {text}"),
        Start::Incomplete => event!(WARN, "redlock.start.incomplete", {}, "redlock: {text}"),
        Start::Unverified => event!(WARN, "redlock.start.unverified", {}, "redlock: {text}"),
        Start::NoQuorum => event!(WARN, "redlock.start.no_quorum", {}, "redlock: {text}"),
        Start::Limited => event!(INFO, "redlock.start.limited", {}, "redlock: {text}"),
        Start::Waiting => event!(INFO, "redlock.start.waiting", {}, "redlock: {text}"),
    }
}
