//! What an attempt makes of the replies that it has heard, without any clock.

use std::{sync::Arc, time::Duration};

use super::{
    acquire::{Asks, Attempt, Verdict},
    action::Vote,
    message::{NodeId, Owner, Token},
    release::Claim,
    time::Instant,
    validity::Terms,
};

pub(crate) use super::quorum::majority;

/// What one node has told an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Heard {
    /// Its grant.
    pub(crate) grant: Option<u64>,
    /// It was asked to confirm, because its grant had been heard by then.
    pub(crate) asked: bool,
    pub(crate) confirmed: bool,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Open,
    /// Ask the nodes that have been heard to confirm this token.
    Confirm(u64),
    Won(u64),
}

pub(crate) fn decide(heard: &[Heard], is_handed_over: bool) -> Decision {
    let begin = Instant::from_nanos(0);
    let all = (0..heard.len()).map(NodeId).collect();
    let asks = Asks::new(all, Duration::ZERO);
    let claim = Claim::new(Arc::from(""), Owner(1), heard.len());
    let begin_attempt = if is_handed_over {
        Attempt::handed_over
    } else {
        Attempt::new
    };
    let mut attempt = begin_attempt(claim, asks, Token::default(), begin);
    attempt.reach(heard.len());
    let nodes = || {
        heard
            .iter()
            .enumerate()
            .map(|(node, heard)| (NodeId(node), heard))
    };
    let confirming = heard.iter().any(|heard| heard.asked);
    for (node, heard) in nodes().filter(|(_, heard)| heard.asked || !confirming) {
        if let Some(counter) = heard.grant {
            attempt.on_grant(node, Token(counter), begin);
        }
    }
    if confirming {
        attempt.begin_confirmation();
        for (node, heard) in nodes() {
            if heard.confirmed {
                attempt.on_confirmation(node, Vote::Ours);
            }
            if let Some(counter) = heard.grant.filter(|_| !heard.asked) {
                attempt.on_grant(node, Token(counter), begin);
            }
        }
    }
    match attempt.verdict(&timeless(), begin) {
        Verdict::Won { token, .. } => Decision::Won(token.0),
        Verdict::Confirm => Decision::Confirm(attempt.begin_confirmation().0.0),
        Verdict::Open | Verdict::Widen | Verdict::Anew | Verdict::Lost(_) => Decision::Open,
    }
}

/// No time passes here, so none runs out.
const fn timeless() -> Terms {
    Terms {
        lease: Duration::from_secs(1),
        guard_band: Duration::ZERO,
        node_timeout: Duration::from_secs(1),
        min_validity: Duration::ZERO,
        wait: Duration::ZERO,
        renew: None,
        max_hold: None,
    }
}
