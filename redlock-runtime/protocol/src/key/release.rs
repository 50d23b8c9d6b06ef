//! What is still owed to the nodes, the release of every owner that was ever sent to them, and to
//! the callers that want to hear of it.
//!
//! A release outlives the caller, the turn and the connection. It is owed to every node that may
//! have the key, because a grant may still be on its way: on the same connection the release arrives
//! behind it. A release that a broken connection took with it is sent again on the next one, until
//! the node has confirmed it or must have dropped the key by itself. A node that answers releases
//! with errors is asked again after a pause, with one of them; the others follow once that succeeds.
//!
//! A lock that must be kept for a while is released at once as well: its keys are told to expire when
//! that is over, so nothing has to be remembered here, and it does not matter if the process ends.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{claim::Claim, cx::Cx, few::Few};
use crate::{
    action::{Answer, Release},
    message::{NodeId, Owner, Reply, Request, SectionId},
    node::Nodes,
    purpose::{Ask, RoundId},
    rules::{quorum, validity::outlasting},
    time::Instant,
};

/// The pause before nodes are asked again that have answered a release with an error; doubled each
/// time.
const FIRST_RETRY: Duration = Duration::from_millis(250);

/// The longest of these pauses.
const LONGEST_RETRY: Duration = Duration::from_secs(8);

/// A node that takes longer to reply may keep a key for so much longer than it should.
const LATE: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(super) struct Releases {
    owed: Option<Box<Owed>>,
}

/// At least one release.
#[derive(Debug, Default)]
struct Owed {
    open: BTreeMap<Owner, Open>,
    /// Nothing is due before. Kept, because a node that refuses releases leaves thousands of them open.
    due: Option<Instant>,
    /// When to ask nodes again that answered with errors, and the pause before.
    retry: Option<(Instant, Duration)>,
}

/// One owner's.
#[derive(Debug)]
struct Open {
    claim: Claim,
    places: Vec<Place>,
    /// The keys have expired by themselves after this.
    until: Instant,
    /// Callers that want to know whether a majority still had the key.
    reports: Reports,
    had_it: usize,
    did_not: usize,
}

/// One node.
#[derive(Clone, Copy, Debug)]
struct Place {
    state: State,
    /// It was sent before: a key that is not there may have been deleted by that one.
    again: bool,
    /// When it was sent last.
    sent: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing is owed to the node.
    Done,
    Sent,
    /// To be sent once the node is connected.
    Unsent,
    /// The node answered with an error.
    Failed,
}

impl Releases {
    /// Releases a claim: at once on the nodes that are connected, else when they are.
    pub(super) fn begin(&mut self, claim: Claim, reports: Reports, cx: &mut Cx<'_>) {
        let nothing = Place {
            state: State::Done,
            again: false,
            sent: cx.now(),
        };
        let mut open = Open {
            places: vec![nothing; cx.nodes.count()],
            // No node keeps the key for longer, even if no release ever reaches it.
            until: cx.now().after(claim.ttl.into()),
            claim,
            reports,
            had_it: 0,
            did_not: 0,
        };
        for node in cx.nodes.ids() {
            if open.claim.may_have(node) {
                open.send(node, cx);
            } else {
                // It was never asked, or has said that it has nothing.
                open.did_not += 1;
            }
        }
        open.report(cx);
        if !open.is_done() {
            let owed = self.owed.get_or_insert_default();
            owed.wake_by(open.next_due());
            owed.open.insert(open.claim.owner, open);
        }
    }

    pub(super) const fn are_done(&self) -> bool {
        self.owed.is_none()
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.owed.as_ref()?.due
    }

    pub(super) fn on_reply(&mut self, of: (NodeId, Owner), reply: Option<Reply>, cx: &mut Cx<'_>) {
        self.with_owed(|owed| owed.on_reply(of, reply, cx));
    }

    /// Sends what the node has not confirmed.
    pub(super) fn on_connected(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        self.with_owed(|owed| owed.send_all(node, State::Unsent, cx));
    }

    /// Looks at the clock: asks nodes again that failed, and gives up what must have expired.
    pub(super) fn advance(&mut self, cx: &mut Cx<'_>) {
        self.with_owed(|owed| owed.advance(cx));
    }

    /// Those that a connected node has not confirmed.
    pub(super) fn unconfirmed(&self, nodes: &Nodes) -> usize {
        let owed = self.owed.as_ref();
        owed.map_or(0, |owed| owed.unconfirmed(nodes))
    }

    fn with_owed(&mut self, act: impl FnOnce(&mut Owed)) {
        if let Some(owed) = &mut self.owed {
            act(owed);
            self.owed.take_if(|owed| owed.open.is_empty());
        }
    }
}

impl Owed {
    fn on_reply(&mut self, (node, owner): (NodeId, Owner), reply: Option<Reply>, cx: &mut Cx<'_>) {
        let Some(open) = self.open.get_mut(&owner) else {
            return;
        };
        let place = &mut open.places[node.0];
        // Nothing is owed for it any more.
        if place.state != State::Sent {
            return;
        }
        place.state = State::Done;
        match reply {
            // It has counted from when it carried the release out, so it is told anew how long is left.
            Some(Reply::Kept) if !place.again && cx.now().since(place.sent) > LATE => {
                place.again = true;
                return open.send(node, cx);
            }
            Some(Reply::Deleted | Reply::Kept) => open.had_it += 1,
            // The first one may have deleted the key before its reply was lost: this proves nothing.
            Some(Reply::NotOwner) if place.again => {}
            Some(Reply::NotOwner) => open.did_not += 1,
            // The connection is lost, and nobody knows whether the node has carried the release out.
            None => {
                place.state = State::Unsent;
                place.again = true;
                return;
            }
            // What keeps it from releasing may pass, as a script that blocks the server does.
            Some(_) => {
                place.state = State::Failed;
                place.again = true;
                let first = (cx.now().after(FIRST_RETRY), FIRST_RETRY);
                let (at, _) = *self.retry.get_or_insert(first);
                return self.wake_by(at);
            }
        }
        open.report(cx);
        if open.is_done() {
            self.open.remove(&owner);
        }
        // A node that answers one release again answers the others, too.
        if self.retry.is_some() {
            self.send_all(node, State::Failed, cx);
        }
    }

    fn advance(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        self.open.retain(|_, open| {
            open.reports.answer_late(cx);
            // The keys have expired by themselves, so no reply can tell any more what the release found.
            if open.until <= now {
                open.reports.answer_all(Release::Unknown, cx);
            }
            now < open.until
        });
        if let Some((_, pause)) = self.retry.take_if(|(at, _)| *at <= now) {
            // One each: a server that is blocked by a script would answer a thousand with the same error.
            self.retry_one_per_node(cx);
            let pause = (2 * pause).min(LONGEST_RETRY);
            self.retry = Some((now.after(pause), pause));
        }
        let dues = self.open.values().map(Open::next_due);
        self.due = dues.chain(self.retry.map(|(at, _)| at)).min();
    }

    fn retry_one_per_node(&mut self, cx: &mut Cx<'_>) {
        for node in cx.nodes.ids() {
            let failed = |open: &&mut Open| open.places[node.0].state == State::Failed;
            if let Some(open) = self.open.values_mut().find(failed) {
                open.send(node, cx);
            }
        }
    }

    fn unconfirmed(&self, nodes: &Nodes) -> usize {
        let is_open = |open: &&Open| {
            let mut connected = nodes.ids().filter(|&node| nodes.is_connected(node));
            connected.any(|node| open.places[node.0].state == State::Sent)
        };
        self.open.values().filter(is_open).count()
    }

    fn wake_by(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    fn send_all(&mut self, node: NodeId, state: State, cx: &mut Cx<'_>) {
        for open in self.open.values_mut() {
            if open.places[node.0].state == state {
                open.send(node, cx);
            }
        }
    }
}

impl Open {
    fn send(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        // Counted anew for each send: a repeated request must not keep the key for longer.
        let left = self.claim.keep_until.map(|until| until.since(cx.now()));
        let body = Request::Release {
            key: Arc::clone(cx.name),
            owner: self.claim.owner,
            mode: self.claim.mode,
            keep: left.filter(|left| !left.is_zero()).map(outlasting),
            leaves: self.claim.leaves,
        };
        let is_sent = cx.tell(node, Ask::Release(self.claim.owner), body);
        let place = &mut self.places[node.0];
        place.state = if is_sent { State::Sent } else { State::Unsent };
        place.sent = cx.now();
    }

    fn is_done(&self) -> bool {
        self.places.iter().all(|place| place.state == State::Done)
    }

    fn next_due(&self) -> Instant {
        let report = self.reports.next_due();
        report.map_or(self.until, |by| by.min(self.until))
    }

    /// Answers the callers once it is known whether a majority had the key.
    fn report(&mut self, cx: &mut Cx<'_>) {
        let nodes = self.places.len();
        // A majority that still had the key proves that nobody else had the lock.
        let release = if self.had_it >= quorum::majority(nodes) {
            Release::Released
        } else if quorum::out_of_reach(nodes, self.did_not) {
            Release::AlreadyExpired
        } else if self.is_done() {
            Release::Unknown
        } else {
            return;
        };
        self.reports.answer_all(release, cx);
    }
}

/// Callers that have let go and wait to hear what became of their release.
#[derive(Debug, Default)]
pub(super) struct Reports(Few<Report>);

#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) section: SectionId,
    /// Then the answer is `Unknown`.
    pub(super) by: Instant,
    /// When the caller let go.
    pub(super) at: Instant,
    /// Only rounds that began later tell.
    pub(super) after: RoundId,
}

impl Reports {
    pub(super) fn push(&mut self, report: Report) {
        self.0.push(report);
    }

    /// When the first of them let go.
    pub(super) fn since(&self) -> Option<Instant> {
        self.0.first().map(|report| report.at)
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.0.iter().map(|report| report.by).min()
    }

    /// Answers those that let go before this round began.
    pub(super) fn answer_before(&mut self, round: RoundId, release: Release, cx: &mut Cx<'_>) {
        // A round that began sooner may have been answered before the caller let go.
        self.answer(|report| report.after < round, release, cx);
    }

    pub(super) fn answer_all(&mut self, release: Release, cx: &mut Cx<'_>) {
        self.answer(|_| true, release, cx);
    }

    pub(super) fn answer_late(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        self.answer(|report| report.by <= now, Release::Unknown, cx);
    }

    fn answer(&mut self, is_told: impl Fn(&Report) -> bool, release: Release, cx: &mut Cx<'_>) {
        for report in self.0.extract(|report| is_told(report)) {
            cx.answer(report.section, Answer::Released(release));
        }
    }
}
