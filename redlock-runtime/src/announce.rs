//! What an operator should read of a node set's start.

use crate::{
    observe::{self, Start},
    redlock::Redlock,
};

/// What works, and is hardly what was meant.
pub(crate) fn built(redlock: &Redlock) {
    let health = redlock.health();
    let count = health.nodes().len();
    if redlock.is_embedded() {
        if !cfg!(debug_assertions) {
            let text = "all nodes are `memory://` nodes, so locks exclude tasks of this process and no \
                        other process";
            observe::start(Start::Embedded, &text);
        }
        return;
    }
    if count.is_multiple_of(2) {
        let fewer = count - 1;
        let text = format_args!(
            "with {count} nodes, no more may fail than with {fewer}; use an odd number"
        );
        observe::start(Start::EvenNumber, &text);
    }
    for node in health.nodes() {
        for limitation in node.limitations() {
            let text = format_args!("{} {limitation}", node.address());
            observe::start(Start::Limited, &text);
        }
    }
    if health.has_quorum() && health.nodes().iter().any(|node| !node.is_up()) {
        observe::start(Start::Incomplete, &health);
    }
}

/// A node's certificate is not verified.
pub(crate) fn insecure(address: &str) {
    let text = format_args!(
        "the certificate of {address} is not verified, so anyone on the network can stand in for it"
    );
    observe::start(Start::Unverified, &text);
}

/// `install` waits.
pub(crate) fn waits(redlock: &Redlock) {
    let health = redlock.health();
    let text = format_args!("waiting until locks can be had: {health}");
    observe::start(Start::Waiting, &text);
}

/// `install` does not wait, and no lock can be had for now.
pub(crate) fn degraded(redlock: &Redlock) {
    let health = redlock.health();
    let text = format_args!("starting without a majority: {health}");
    observe::start(Start::NoQuorum, &text);
}
