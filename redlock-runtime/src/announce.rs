//! What an operator should read of a node set's start, by `tracing`: the only place that writes
//! anything.

use crate::redlock::Redlock;

/// What works, and is hardly what was meant.
pub(crate) fn built(redlock: &Redlock) {
    let health = redlock.health();
    let count = health.nodes().len();
    if redlock.is_embedded() {
        if !cfg!(debug_assertions) {
            warn(&format_args!(
                "redlock: all nodes are `memory://` nodes, so locks exclude tasks of this process \
                 and no other process"
            ));
        }
        return;
    }
    if count.is_multiple_of(2) {
        let fewer = count - 1;
        warn(&format_args!(
            "redlock: {count} nodes survive the failure of no more nodes than {fewer} do; use an \
             odd number"
        ));
    }
    for node in health.nodes() {
        for limitation in node.limitations() {
            info(&format_args!("redlock: {} {limitation}", node.address()));
        }
    }
    if health.has_quorum() && health.nodes().iter().any(|node| !node.is_up()) {
        warn(&format_args!("redlock: {health}"));
    }
}

/// A node's certificate is not verified.
pub(crate) fn insecure(address: &str) {
    warn(&format_args!(
        "redlock: the certificate of {address} is not verified, so anyone on the network can stand in \
         for it"
    ));
}

/// `install` waits.
pub(crate) fn waits(redlock: &Redlock) {
    info(&format_args!(
        "redlock: waiting until locks can be had: {}",
        redlock.health()
    ));
}

/// `install` does not wait, and no lock can be had for now.
pub(crate) fn degraded(redlock: &Redlock) {
    warn(&format_args!(
        "redlock: starting without a majority: {}",
        redlock.health()
    ));
}

#[cfg(feature = "tracing")]
fn warn(message: &std::fmt::Arguments<'_>) {
    tracing::warn!("{message}");
}

#[cfg(feature = "tracing")]
fn info(message: &std::fmt::Arguments<'_>) {
    tracing::info!("{message}");
}

#[cfg(not(feature = "tracing"))]
fn warn(_: &std::fmt::Arguments<'_>) {}

#[cfg(not(feature = "tracing"))]
fn info(_: &std::fmt::Arguments<'_>) {}
