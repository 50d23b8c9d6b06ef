//! What is still owed to the nodes, the release of every owner that was ever sent to them, and to
//! the callers that want to hear of it.
//!
//! A release outlives the caller, the turn and the connection. It is owed to every node that may
//! have the key, because a grant may still be on its way: on the same connection the release arrives
//! behind it. A release that a broken connection took with it is sent again on the next one, and one
//! that was answered with an error after a pause, until the node has confirmed it or must have
//! dropped the key by itself.

use std::{sync::Arc, time::Duration};

use super::{Ask, Cx, KeyId, claim::Claim, turn::Report};
use crate::{
    action::Release,
    message::{NodeId, Owner, Reply, Request},
    node::Nodes,
    rules::quorum,
    time::Instant,
};

/// The pause before a node is asked again that has answered a release with an error; doubled with
/// every further one.
const FIRST_RETRY: Duration = Duration::from_millis(250);

/// The longest of these pauses.
const LONGEST_RETRY: Duration = Duration::from_secs(8);

#[derive(Debug, Default)]
pub(super) struct Releases {
    open: Vec<Open>,
}

/// One owner's.
#[derive(Debug)]
struct Open {
    owner: Owner,
    places: Vec<Place>,
    /// The keys have expired by themselves after this.
    until: Instant,
    /// Callers that want to know whether a majority still had the key.
    reports: Vec<Report>,
    had_it: usize,
    did_not: usize,
}

/// One node.
#[derive(Clone, Copy, Debug)]
struct Place {
    state: State,
    /// It was sent before: a key that is not there may have been deleted by that one.
    again: bool,
    /// Before it is sent again after the next error.
    pause: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing is owed to the node.
    Done,
    Sent,
    /// To be sent once the node is connected.
    Unsent,
    /// The node answered with an error.
    Failed {
        retry_at: Instant,
    },
}

impl Releases {
    /// Releases a claim: at once on the nodes that are connected, else when they are.
    pub(super) fn begin(
        &mut self,
        id: KeyId,
        name: &Arc<str>,
        claim: &Claim,
        reports: Vec<Report>,
        cx: &mut Cx<'_>,
    ) {
        let nothing = Place {
            state: State::Done,
            again: false,
            pause: FIRST_RETRY,
        };
        let mut open = Open {
            owner: claim.owner,
            places: vec![nothing; cx.nodes.count()],
            until: cx.now().after(claim.ttl),
            reports,
            had_it: 0,
            did_not: 0,
        };
        for node in cx.nodes.ids() {
            if claim.may_have(node) {
                open.send(id, name, node, cx);
            } else {
                open.did_not += 1;
            }
        }
        open.report(cx);
        if !open.is_done() {
            self.open.push(open);
        }
    }

    pub(super) const fn are_done(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn on_reply(&mut self, node: NodeId, owner: Owner, reply: &Reply, cx: &mut Cx<'_>) {
        let Some(open) = self.open.iter_mut().find(|open| open.owner == owner) else {
            return;
        };
        let place = &mut open.places[node.0];
        if place.state != State::Sent {
            return;
        }
        place.state = State::Done;
        match reply {
            Reply::Deleted => open.had_it += 1,
            Reply::NotOwner if place.again => {}
            Reply::NotOwner => open.did_not += 1,
            // What keeps it from releasing may pass, as a script that blocks the server does.
            _ => place.fail(cx.now()),
        }
        open.report(cx);
        self.forget_done(cx);
    }

    pub(super) fn on_unanswered(&mut self, node: NodeId, owner: Owner) {
        if let Some(open) = self.open.iter_mut().find(|open| open.owner == owner)
            && let place = &mut open.places[node.0]
            && place.state == State::Sent
        {
            place.state = State::Unsent;
            place.again = true;
        }
    }

    /// Sends what the node has not confirmed.
    pub(super) fn on_connected(
        &mut self,
        id: KeyId,
        name: &Arc<str>,
        node: NodeId,
        cx: &mut Cx<'_>,
    ) {
        for open in &mut self.open {
            if open.places[node.0].state == State::Unsent {
                open.send(id, name, node, cx);
            }
        }
    }

    /// Looks at the clock: sends again what failed, and gives up what must have expired.
    pub(super) fn advance(&mut self, id: KeyId, name: &Arc<str>, cx: &mut Cx<'_>) {
        let now = cx.now();
        for open in &mut self.open {
            for node in cx.nodes.ids() {
                if let State::Failed { retry_at } = open.places[node.0].state
                    && retry_at <= now
                {
                    open.send(id, name, node, cx);
                }
            }
            open.report_late(cx);
        }
        self.forget_done(cx);
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.open.iter().map(Open::next_due).min()
    }

    /// Those that a connected node has not confirmed.
    pub(super) fn unconfirmed(&self, nodes: &Nodes) -> usize {
        let is_open = |open: &&Open| {
            let mut connected = nodes.ids().filter(|&node| nodes.is_connected(node));
            connected.any(|node| open.places[node.0].state == State::Sent)
        };
        self.open.iter().filter(is_open).count()
    }

    fn forget_done(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        self.open.retain_mut(|open| {
            let is_over = open.is_done() || open.until <= now;
            if is_over {
                open.answer_all(Release::Unknown, cx);
            }
            !is_over
        });
    }
}

impl Place {
    fn fail(&mut self, now: Instant) {
        self.state = State::Failed {
            retry_at: now.after(self.pause),
        };
        self.again = true;
        self.pause = (2 * self.pause).min(LONGEST_RETRY);
    }
}

impl Open {
    fn send(&mut self, id: KeyId, name: &Arc<str>, node: NodeId, cx: &mut Cx<'_>) {
        let body = Request::Release {
            key: Arc::clone(name),
            owner: self.owner,
        };
        let ask = (id, Ask::Release(self.owner));
        let is_sent = cx.nodes.tell(node, ask, body, &mut cx.out);
        self.places[node.0].state = if is_sent { State::Sent } else { State::Unsent };
    }

    fn is_done(&self) -> bool {
        self.places.iter().all(|place| place.state == State::Done)
    }

    fn next_due(&self) -> Instant {
        let retries = self.places.iter().filter_map(|place| match place.state {
            State::Failed { retry_at } => Some(retry_at),
            _ => None,
        });
        let reports = self.reports.iter().map(|report| report.by);
        retries.chain(reports).fold(self.until, Instant::min)
    }

    /// Answers the callers once it is known whether a majority had the key.
    fn report(&mut self, cx: &mut Cx<'_>) {
        let nodes = self.places.len();
        if self.had_it >= quorum::majority(nodes) {
            self.answer_all(Release::Released, cx);
        } else if quorum::out_of_reach(nodes, self.did_not) {
            self.answer_all(Release::AlreadyExpired, cx);
        } else if self.is_done() {
            self.answer_all(Release::Unknown, cx);
        }
    }

    fn report_late(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        self.reports.retain(|report| {
            if report.by <= now {
                cx.released(report.section, Release::Unknown);
            }
            now < report.by
        });
    }

    fn answer_all(&mut self, release: Release, cx: &mut Cx<'_>) {
        for report in self.reports.drain(..) {
            cx.released(report.section, release);
        }
    }
}
