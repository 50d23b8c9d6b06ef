//! Spans and events by `tracing`: names, fields, levels and texts.
//!
//! `WARN` is for what an operator should look at, `INFO` for the end of such a thing, `DEBUG` for spans. A
//! day on which nothing goes wrong writes nothing above `DEBUG`.

use std::time::Duration;

use tracing::{Level, Span, field, level_filters::LevelFilter};

use super::fact::End;
use crate::{
    health::{self, Health, NodeState, NodeStatus},
    key::shown,
    status::Status,
};

/// The target of everything.
const TARGET: &str = "redlock_runtime";

/// An event outside all spans: the thread on which it is written may be at work for another section. Its name
/// is a field, too, because subscribers do not write the name of an event.
macro_rules! event {
    ($level:ident $name:literal { $($fields:tt)* }, $($text:tt)+) => {
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

pub(super) fn acquire(status: &Status, node_set: &str) -> Span {
    tracing::debug_span!(
        target: TARGET,
        "redlock.acquire",
        section = status.name,
        key = &**status.key(),
        node_set,
        outcome = field::Empty,
        wait_seconds = field::Empty,
        attempts = field::Empty,
    )
}

pub(super) fn hold(status: &Status, node_set: &str) -> Span {
    tracing::debug_span!(
        target: TARGET,
        "redlock.hold",
        section = status.name,
        key = &**status.key(),
        node_set,
        token = status.token().0,
        outcome = field::Empty,
        hold_seconds = field::Empty,
    )
}

pub(super) fn end_acquire(span: &Span, outcome: End, wait: Duration, attempts: u32) {
    span.record("outcome", outcome.label());
    span.record("wait_seconds", wait.as_secs_f64());
    span.record("attempts", attempts);
}

pub(super) fn end_hold(span: &Span, over: Option<End>, hold: Duration) {
    let end = over.unwrap_or(End::Released);
    span.record("outcome", end.label());
    span.record("hold_seconds", hold.as_secs_f64());
}

pub(super) fn renewed_late(status: &Status, node_set: &str, left: Duration) {
    event!(WARN "redlock.renewed_late" {
        section = status.name, key = &**status.key(), node_set,
        token = status.token().0, left_seconds = left.as_secs_f64(),
    }, "redlock: the lease of `{}` was renewed when {left:.1?} were left", shown(status.key()));
}

pub(super) fn self_wait(status: &Status, node_set: &str) {
    event!(WARN "redlock.self_wait" {
        section = status.name, key = &**status.key(), node_set,
    }, "redlock: a task waits for `{}` and has acquired the guard that holds it; if no other code drops \
        that guard, the task waits for itself", shown(status.key()));
}

pub(super) fn over(status: &Status, node_set: &str, over: End) {
    let (section, key, token) = (status.name, &**status.key(), status.token().0);
    let shown = shown(key);
    match over {
        End::Lost => event!(WARN "redlock.lost" { section, key, node_set, token },
            "redlock: `{shown}` was lost: no majority of nodes is known to have its key any more"),
        End::Stopped => event!(WARN "redlock.stopped" { section, key, node_set, token },
            "redlock: the holder of `{shown}` was cut off, because the node set was shut down"),
        _ => event!(WARN "redlock.expired" { section, key, node_set, token },
            "redlock: the lease of `{shown}` ended before its holder let go"),
    }
}

// ---- nodes

pub(super) fn node(status: &NodeStatus, node_set: &str, voting: usize) {
    let node = status.address();
    macro_rules! event_of_node {
        ($level:ident, $name:literal) => {
            event!($level $name { node, node_set, voting }, "redlock: {status}")
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
        _ => event_of_node!(WARN, "redlock.node.other_format"),
    }
}

pub(super) fn slow(node: &str, node_set: &str, round_trip: Duration) {
    event!(WARN "redlock.node.slow" {
        node, node_set, round_trip_seconds = round_trip.as_secs_f64(),
    }, "redlock: {node} took {round_trip:.1?} to reply, longer than the node timeout, so locks did \
        not count its vote");
}

pub(super) fn quorum(is_there: bool, node_set: &str, voting: usize, nodes: usize) {
    let vote = health::vote(voting, nodes);
    if is_there {
        event!(INFO "redlock.quorum.regained" { node_set, voting, nodes },
            "redlock: {vote}, so locks are granted again");
    } else {
        event!(ERROR "redlock.quorum.lost" { node_set, voting, nodes },
            "redlock: {vote}, so no lock is granted");
    }
}

// ---- the start of a node set

/// What works, and is hardly what was meant.
pub(crate) fn built(health: &Health, is_embedded: bool) {
    if is_embedded {
        if !cfg!(debug_assertions) {
            event!(WARN "redlock.start.embedded" {}, "redlock: all nodes are `memory://` nodes, so locks exclude \
                tasks of this process and no other process");
        }
        return;
    }
    let nodes = health.nodes();
    let count = nodes.len();
    if count.is_multiple_of(2) {
        let fewer = count - 1;
        event!(WARN "redlock.start.even_number" {},
            "redlock: with {count} nodes, no more may fail than with {fewer}; use an odd number");
    }
    for node in nodes {
        for limitation in node.limitations() {
            let node = node.address();
            event!(INFO "redlock.start.limited" {}, "redlock: {node} {limitation}");
        }
    }
    if health.has_quorum() && !nodes.iter().all(NodeStatus::is_up) {
        event!(WARN "redlock.start.incomplete" {}, "redlock: {health}");
    }
}

/// A node's certificate is not verified.
pub(crate) fn insecure(address: &str) {
    event!(WARN "redlock.start.unverified" {}, "redlock: the certificate of {address} is not verified, so anyone on \
        the network can stand in for it");
}

/// `install` waits.
pub(crate) fn waits(health: &Health) {
    event!(INFO "redlock.start.waiting" {}, "redlock: waiting until locks are granted: {health}");
}

/// `install` does not wait, and no lock is granted for now.
pub(crate) fn degraded(health: &Health) {
    event!(WARN "redlock.start.no_quorum" {}, "redlock: starting without a majority: {health}");
}
