//! What one owner may have on the nodes, node by node.
//!
//! Two questions that look alike are kept apart. *May it have the key there?* If in doubt, yes: it
//! is released there. *Is it known to have the key there?* If in doubt, no: a lock that is not
//! known to rest on a majority is lost.

use std::{sync::Arc, time::Duration};

use super::{cx::Cx, few::Few, round::Round};
use crate::{
    action::Verdict,
    message::{BlockRequest, Mode, NodeId, Owner, Reply, RequestId},
    node::Lead,
    purpose::{Ask, RoundId},
    rules::{proposal, quorum, validity::LockParams},
    time::{Instant, Span},
};

/// Two clocks may differ by one part in this number: every lease allows for that.
const DRIFT: u32 = 100;

/// A server's remaining time is in whole milliseconds, and so is the TTL.
const ROUNDING: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(super) struct Claim {
    pub(super) owner: Owner,
    pub(super) mode: Mode,
    /// No node was asked to keep the key for longer.
    pub(super) ttl: Span,
    /// The nodes keep the key until then, whatever ends the turn before.
    pub(super) keep_until: Option<Instant>,
    /// Its process has a place in the queue, to be given up with the key.
    pub(super) leaves: bool,
    /// Another process wants the lock: it was refused on a node and waits, or has had a key on one.
    pub(super) has_remote_waiter: bool,
    /// Another process was refused since the last round began that was meant to let the key live for longer.
    pub(super) is_waited_for: bool,
    /// For one section and no more: it is fair or has a note, or see `Settings::mixed_fleet`.
    pub(super) is_single: bool,
    /// Nodes tell of changes to the key.
    pub(super) is_watched: bool,
    writing: Option<Writing>,
    places: Box<[Place]>,
    /// Of each node, once the clock of one has run ahead.
    leads: Few<Lead>,
}

/// The last round that was to make the key, or to let it live for longer.
#[derive(Debug)]
pub(super) struct Writing {
    round: RoundId,
    started: Instant,
    params: Arc<LockParams>,
    /// For how long the key was to live if it was written.
    lives: Span,
}

impl Writing {
    /// A node on which the key had so much `remaining` has written it.
    pub(super) fn is_written(&self, remaining: Option<Duration>) -> bool {
        remaining.is_none_or(|remaining| remaining < self.params.key_ttl())
    }

    /// From when the key lives that it has written, and for how long.
    const fn span(&self) -> (Instant, Span) {
        (self.started, self.lives)
    }
}

/// One node.
#[derive(Clone, Debug, Default)]
struct Place {
    has: Has,
    /// The last request that can have made the key, and what was there before.
    asked: RequestId,
    before: Has,
    /// When the key that is there was written last, at the earliest, and how long it was to live then.
    written: Option<(Instant, Span)>,
    reads: Reads,
}

/// What a node has of the key, each more than the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Has {
    #[default]
    Nothing,
    /// It has said that another owner's key is there.
    Anothers,
    /// The owner's, perhaps.
    Perhaps,
    /// It has said so.
    Known,
}

/// At most one read is under way, and at most one more follows it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reads {
    is_reading: bool,
    reads_again: bool,
}

impl Reads {
    /// True if the key can be read now; else it is read once more after the read that is under way.
    pub(super) const fn begin(&mut self) -> bool {
        // The read under way may have been answered before this change.
        self.reads_again = self.is_reading;
        !std::mem::replace(&mut self.is_reading, true)
    }

    /// A read is over. True if the key must be read once more.
    pub(super) fn end(&mut self) -> bool {
        std::mem::take(self).reads_again
    }
}

impl Claim {
    /// No node has been asked.
    pub(super) fn new(owner: Owner, mode: Mode, nodes: usize) -> Self {
        Self {
            owner,
            mode,
            ttl: Span::ZERO,
            keep_until: None,
            leaves: false,
            has_remote_waiter: false,
            is_waited_for: false,
            is_single: false,
            is_watched: false,
            writing: None,
            places: vec![Place::default(); nodes].into(),
            leads: Few::default(),
        }
    }

    /// What to propose after numbers that did not agree. Keys of one group share its counter, and readers
    /// their key: others may ask for numbers at the same time.
    pub(super) fn after_disagreement(
        &self,
        round: &Round,
        cx: &mut Cx<'_>,
    ) -> Option<BlockRequest> {
        let (wall, now) = (cx.wall_micros(), cx.now());
        let reached = round.reached(cx.nodes, now, wall);
        let block = round.question.block?;
        Some(proposal::after_disagreement(
            (reached, now.since(round.heard_at)),
            block.length,
            self.owner.0,
            wall,
        ))
    }

    /// A request that can make the key goes to a node.
    pub(super) fn on_asked(&mut self, node: NodeId, request: RequestId) {
        let place = &mut self.places[node.0];
        // Only if nothing was there before, a refusal of this request proves that nothing is there now.
        place.before = place.has;
        place.has = place.has.max(Has::Perhaps);
        place.asked = request;
        // Measured from an older write, its clock would seem to run ahead, and the node would lose its vote.
        place.written = None;
    }

    /// A round begins that is to make the key, or to let it live for longer.
    pub(super) fn on_round(&mut self, round: &Round) {
        let params = Arc::clone(&round.question.params);
        let lives = Span::from(params.key_ttl() + round.question.spare);
        // The longest of all: a node that no release reaches may keep the key for that long.
        self.ttl = self.ttl.max(lives);
        self.is_waited_for = false;
        self.writing = Some(Writing {
            round: round.id,
            started: round.started,
            params,
            lives,
        });
    }

    /// What a reply tells of the key on one node, whether or not its round still wants it: a grant
    /// that comes late is released with the rest, and the clock of a node that is always the last to
    /// reply is looked at like the others. Returns by how much that clock has run ahead, if it is
    /// more than a lease can absorb.
    pub(super) fn on_reply(
        &mut self,
        (node, request): (NodeId, RequestId),
        ask: Ask,
        reply: &Reply,
        now: Instant,
    ) -> Option<Duration> {
        self.has_remote_waiter |= reply.names_others();
        match *reply {
            Reply::Granted { .. } => {
                self.on_known(node);
                self.places[node.0].written = self.writing_of(ask).map(Writing::span);
            }
            Reply::Extended {
                remaining,
                has_remote_waiter,
                ..
            } => {
                // Reset when a round begins, so that a waiter who gave up is forgotten.
                self.is_waited_for |= has_remote_waiter;
                // Also if the next round has begun: a node may always reply as late as that.
                self.on_known(node);
                return self.on_extended(node, ask, remaining, now);
            }
            // The node has made the key again, or had it. That is no vote, and it must not hide that the key was
            // gone from a majority for a while. So the key is not known to be there before it is read or extended
            // there: by then, the replies of nodes that were asked with it, or have lost the key, have been counted.
            Reply::PutBack => {
                // Who had a key there has let go, and may ask again.
                self.has_remote_waiter |= self.places[node.0].before == Has::Anothers;
            }
            Reply::Ours => self.on_known(node),
            Reply::Held { remaining, .. } => {
                self.on_absent(node, request);
                self.on_anothers(node, remaining.map(|left| (now, left.into())));
            }
            Reply::Queued(_) | Reply::NotOwner | Reply::Taken | Reply::Free => {
                self.on_absent(node, request);
            }
            Reply::NotAdmitted => self.on_refused(node, request),
            Reply::Refused { is_untouched, .. } if is_untouched => self.on_refused(node, request),
            _ => {}
        }
        None
    }

    pub(super) fn writing_of(&self, ask: Ask) -> Option<&Writing> {
        let (Ask::Acquire(round, _) | Ask::Extend(round, _)) = ask else {
            return None;
        };
        // A reply to an earlier round would be measured against the times of this one.
        self.writing.as_ref().filter(|last| last.round == round)
    }

    fn on_known(&mut self, node: NodeId) {
        let place = &mut self.places[node.0];
        if place.has != Has::Known {
            // It is of another key, or of another time.
            place.written = None;
        }
        place.has = Has::Known;
    }

    /// The node said to this request that the owner has nothing there. It may have been asked to
    /// make the key again since.
    fn on_absent(&mut self, node: NodeId, request: RequestId) {
        let place = &mut self.places[node.0];
        // A later request may have made the key again since this reply was sent.
        let at_most = match place.asked <= request {
            true => Has::Nothing,
            false => Has::Perhaps,
        };
        place.has = place.has.min(at_most);
    }

    /// For how long another owner's key is there, if it expires.
    fn on_anothers(&mut self, node: NodeId, lives: Option<(Instant, Span)>) {
        let place = &mut self.places[node.0];
        if place.has == Has::Nothing {
            (place.has, place.written) = (Has::Anothers, lives);
        }
    }

    /// The node has not carried out this request, which says nothing of what was there before.
    fn on_refused(&mut self, node: NodeId, request: RequestId) {
        let place = &mut self.places[node.0];
        // An error says nothing of a key that was there before the request.
        if place.asked == request && place.before < Has::Perhaps {
            place.has = Has::Nothing;
        }
    }

    /// It was to make the key, and may have lost it since.
    pub(super) fn was_asked(&self, node: NodeId) -> bool {
        self.places[node.0].asked != RequestId::default()
    }

    pub(super) fn may_have(&self, node: NodeId) -> bool {
        self.places[node.0].has >= Has::Perhaps
    }

    pub(super) fn is_known(&self, node: NodeId) -> bool {
        self.places[node.0].has == Has::Known
    }

    /// What a node has said last that votes.
    pub(super) fn verdict(&self, node: NodeId, now: Instant) -> Verdict {
        let place = &self.places[node.0];
        let left =
            |(at, lives): (Instant, Span)| Duration::from(lives).saturating_sub(now.since(at));
        match place.has {
            Has::Known => Verdict::Ours,
            Has::Anothers => Verdict::HeldByAnother {
                remaining: place.written.map(left),
            },
            Has::Nothing | Has::Perhaps => Verdict::NoLongerOurs,
        }
    }

    /// No majority is known to have the key any more.
    pub(super) fn is_lost(&self) -> bool {
        let is_known = |place: &&Place| place.has == Has::Known;
        // In doubt the lock is lost: the body stops, though a majority may have the key.
        self.places.iter().filter(is_known).count() < quorum::majority(self.places.len())
    }

    /// A majority is known not to have the key any more.
    pub(super) fn is_gone(&self) -> bool {
        let is_absent = |place: &&Place| place.has < Has::Perhaps;
        // In doubt the key is there: it is released where it may be.
        quorum::out_of_reach(
            self.places.len(),
            self.places.iter().filter(is_absent).count(),
        )
    }

    pub(super) fn reads(&mut self, node: NodeId) -> &mut Reads {
        &mut self.places[node.0].reads
    }

    /// The node has extended the key, and says what was `remaining` before.
    fn on_extended(
        &mut self,
        node: NodeId,
        ask: Ask,
        remaining: Option<Duration>,
        now: Instant,
    ) -> Option<Duration> {
        let writing = self.writing_of(ask)?;
        let is_written = writing.is_written(remaining);
        let bounds = (writing.params.lease, writing.params.guard_band);
        let span = writing.span();
        let place = &mut self.places[node.0];
        let before = place.written;
        if is_written {
            place.written = Some(span);
        }
        let ((written, lived), remaining) = before.zip(remaining)?;
        let elapsed = now.since(written);
        // The allowed drift and the rounding are no gain. What is left of it is how far the node's clock ran ahead.
        let expected = Duration::from(lived).saturating_sub(elapsed + elapsed / DRIFT + ROUNDING);
        let gain = expected.saturating_sub(remaining);
        if !gain.is_zero() && self.leads.is_empty() {
            self.leads = vec![Lead::default(); self.places.len()].into();
        }
        let lead = self.leads.iter_mut().nth(node.0)?;
        lead.add(gain, is_written, bounds, (written, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(1);

    fn claim() -> Claim {
        let mut claim = Claim::new(Owner(1), Mode::Exclusive, 3);
        for node in 0..2 {
            claim.on_asked(NodeId(node), RequestId(5));
            claim.on_known(NodeId(node));
        }
        claim
    }

    #[test]
    fn what_is_asked_for_after_a_refusal_is_released_all_the_same() {
        let mut claim = claim();
        claim.on_asked(NodeId(0), RequestId(9));
        claim.on_absent(NodeId(0), RequestId(6));
        assert!(claim.may_have(NodeId(0)) && !claim.is_known(NodeId(0)));
        claim.on_absent(NodeId(0), RequestId(9));
        assert!(!claim.may_have(NodeId(0)));
    }

    #[test]
    fn a_key_that_was_put_back_does_not_hide_that_it_was_lost() {
        let mut claim = claim();
        claim.on_absent(NodeId(0), RequestId(6));
        claim.on_asked(NodeId(0), RequestId(9));
        assert!(claim.is_lost() && claim.may_have(NodeId(0)));
        claim.on_known(NodeId(0));
        assert!(!claim.is_lost());
    }

    #[test]
    fn an_error_says_nothing_of_what_was_there_before() {
        let mut claim = claim();
        for node in 0..2 {
            claim.on_asked(NodeId(node), RequestId(9));
            claim.on_refused(NodeId(node), RequestId(9));
            assert!(claim.may_have(NodeId(node)) && claim.is_known(NodeId(node)));
        }
        claim.on_asked(NodeId(2), RequestId(10));
        claim.on_refused(NodeId(2), RequestId(10));
        assert!(!claim.may_have(NodeId(2)));
        claim.on_asked(NodeId(2), RequestId(11));
        claim.on_refused(NodeId(2), RequestId(10));
        assert!(claim.may_have(NodeId(2)), "it was asked again since");
    }

    #[test]
    fn an_extension_that_is_told_after_the_next_has_begun_counts() {
        let mut claim = claim();
        claim.on_absent(NodeId(0), RequestId(6));
        let ask = Ask::Extend(RoundId(7), claim.owner);
        let reply = Reply::Extended {
            remaining: Some(TTL),
            first: None,
            has_remote_waiter: false,
        };
        let now = Instant::from_nanos(0);
        assert_eq!(
            claim.on_reply((NodeId(2), RequestId(8)), ask, &reply, now),
            None
        );
        assert!(!claim.is_lost());
    }

    #[test]
    fn one_read_is_under_way_and_at_most_one_more_follows() {
        let mut reads = Reads::default();
        assert!(reads.begin());
        for _ in 0..1_000 {
            assert!(!reads.begin());
        }
        assert!(reads.end());
        assert!(reads.begin());
        assert!(!reads.end());
    }
}
