//! One attempt to win a majority.
//!
//! An attempt on nodes that have time asks all of them at once: the fastest majority decides. One on
//! a busy set, and a hand-over, asks only as many as a majority needs, which spares two of five nodes
//! the request and its release; it asks the others as soon as one of the first fails, once they have
//! answered without a majority, or when they take several times as long as usual.

use std::time::Duration;

use super::{
    action::{Cause, Refusal, Vote},
    ballot::Ballot,
    fence::Grants,
    line::LONGEST_TURN,
    message::{AttemptId, Fault, NodeId, Token},
    quorum,
    release::Claim,
    time::Instant,
    validity::Terms,
};

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) id: AttemptId,
    pub(super) claim: Claim,
    /// Read before the first send; the lease counts from here.
    pub(super) started: Instant,
    ballot: Ballot,
    grants: Grants,
    confirmation: Option<Confirmation>,
    asks: Asks,
    /// The number that nodes are asked to grant.
    pub(super) proposal: Token,
    /// The lock is, or will be, handed over by another lease of this process.
    is_handed_over: bool,
    /// The number of the lease before.
    pub(super) after: Token,
    /// When a node last granted.
    heard: Instant,
    /// A node that granted says that somebody else waits.
    pub(super) is_awaited: bool,
}

/// Who is asked when: the first `reached` of `order` have been. The others are asked too where
/// those cannot or do not decide it.
#[derive(Debug)]
pub(super) struct Asks {
    pub(super) order: Vec<NodeId>,
    reached: usize,
    /// For how long only a part of the nodes is asked.
    pub(super) patience: Duration,
}

impl Asks {
    /// Nobody has been asked.
    pub(super) const fn new(order: Vec<NodeId>, patience: Duration) -> Self {
        Self {
            order,
            reached: 0,
            patience,
        }
    }
}

/// The second round, of the few attempts whose grants do not agree on a number.
#[derive(Debug)]
struct Confirmation {
    token: Token,
    ballot: Ballot,
}

/// What an attempt has come to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Open,
    /// Those that were asked do not decide it, or not in time: ask more, see `widen`.
    Widen,
    /// A majority has granted, but with different numbers: `begin_confirmation`.
    Confirm,
    /// The same for a lock that was handed over. That a key carries the owner says nothing of who had
    /// the lock in between, because a request of a lease before can have made it. So there is no
    /// confirmation: it is asked for under an owner of its own.
    Anew,
    Won {
        deadline: Instant,
        token: Token,
    },
    Lost(Cause),
}

impl Attempt {
    /// Is to ask the first of those in order, and the others later if need be. Nodes that are not
    /// among them have no vote, and the reason is to be handed in at once.
    pub(super) fn new(claim: Claim, asks: Asks, proposal: Token, now: Instant) -> Self {
        let nodes = claim.kept_since.len();
        Self {
            id: AttemptId::default(),
            claim,
            started: now,
            ballot: Ballot::new(nodes),
            grants: Grants::default(),
            confirmation: None,
            asks,
            proposal,
            is_handed_over: false,
            after: Token::default(),
            heard: now,
            is_awaited: false,
        }
    }

    /// The same for the next lease of the process that has the lock.
    pub(super) fn handed_over(mut claim: Claim, asks: Asks, proposal: Token, now: Instant) -> Self {
        // Beyond what the last holder has seen, so that the nodes agree again, as they would after
        // its release.
        let least = Token(claim.seen.0 + 1);
        claim.hand_over();
        Self {
            is_handed_over: true,
            ..Self::new(claim, asks, proposal.max(least), now)
        }
    }

    /// The nodes to ask next, so that `count` have been asked, or all there are.
    pub(super) fn reach(&mut self, count: usize) -> Vec<NodeId> {
        let count = count.min(self.asks.order.len());
        let before = std::mem::replace(&mut self.asks.reached, count);
        self.asks.order[before..count].to_vec()
    }

    /// The nodes to ask next: so that there are as `many`, or all that are left where some of those
    /// that were asked have not granted.
    pub(super) fn widen(&mut self, many: usize) -> Vec<NodeId> {
        let all_granted = self.ballot.ours() == self.asks.reached;
        self.reach(if all_granted && self.asks.reached < many {
            many
        } else {
            self.node_count()
        })
    }

    pub(super) fn node_count(&self) -> usize {
        self.ballot.votes().len()
    }

    /// Both rounds share one node timeout, so that no caller waits for two.
    pub(super) fn closes_at(&self, terms: &Terms) -> Instant {
        self.started.after(terms.round_timeout())
    }

    /// When to look at it again at the latest.
    pub(super) fn next_due(&self, terms: &Terms) -> Instant {
        let closes_at = self.closes_at(terms);
        if self.asks.reached < self.asks.order.len() {
            self.started.after(self.asks.patience).min(closes_at)
        } else {
            closes_at
        }
    }

    /// The highest number that it has asked for or heard of.
    pub(super) fn highest(&self) -> Token {
        self.claim.seen.max(self.proposal)
    }

    /// From the first send to the last grant.
    pub(super) fn round(&self) -> Duration {
        self.heard.since(self.started)
    }

    pub(super) fn on_grant(&mut self, node: NodeId, counter: Token, now: Instant) {
        self.heard = now;
        self.grants.hear(node, counter);
        self.claim.hear(counter);
        self.ballot.cast(node, Vote::Ours);
    }

    /// The key may carry the owner already, and should then be kept for so much longer than is
    /// needed.
    pub(super) fn spare(&self) -> Option<Duration> {
        self.is_handed_over.then_some(LONGEST_TURN)
    }

    pub(super) fn on_vote(&mut self, node: NodeId, vote: Vote) {
        self.ballot.cast(node, vote);
    }

    pub(super) fn on_confirmation(&mut self, node: NodeId, vote: Vote) {
        if let Some(confirmation) = &mut self.confirmation {
            confirmation.ballot.cast(node, vote);
        }
    }

    /// Opens the second round: the token, and the nodes that may confirm it.
    pub(super) fn begin_confirmation(&mut self) -> (Token, Vec<NodeId>) {
        let token = self.claim.seen;
        let nodes: Vec<NodeId> = self.grants.nodes().collect();
        let mut ballot = Ballot::new(self.node_count());
        // Of the others it is not known what they have granted.
        let others = (0..self.node_count()).map(NodeId);
        for node in others.filter(|node| !nodes.contains(node)) {
            ballot.cast(node, Vote::NotOwner);
        }
        self.confirmation = Some(Confirmation { token, ballot });
        (token, nodes)
    }

    /// Falls at quorum, at impossibility, or at the node timeout: never later.
    pub(super) fn verdict(&mut self, terms: &Terms, now: Instant) -> Verdict {
        let closed = now >= self.closes_at(terms);
        if !self.ballot.is_won() {
            return self.verdict_on_grants(terms, now);
        }
        let Some(token) = self.token() else {
            return if self.is_handed_over {
                Verdict::Anew
            } else {
                self.verdict_on_confirmation(closed)
            };
        };
        if token <= self.after {
            // Asked for before the lease was that has had it in between.
            return Verdict::Anew;
        }
        let deadline = terms.deadline(self.started, self.started);
        // Measured from the first send to this moment, after the replies: a reply that took long
        // has used up the lease it grants.
        if deadline.since(now) < terms.min_validity {
            return Verdict::Lost(Cause::TooSlow);
        }
        Verdict::Won { deadline, token }
    }

    fn verdict_on_grants(&mut self, terms: &Terms, now: Instant) -> Verdict {
        if now >= self.closes_at(terms) {
            self.ballot.close();
        }
        if !self.ballot.is_out_of_reach() {
            return self.verdict_on_part(terms, now);
        }
        if self.ballot.is_starved() {
            return Verdict::Lost(self.outage());
        }
        Verdict::Lost(Cause::Contended {
            retry_after: self.retry_after(),
        })
    }

    /// Not decided yet. Do those that were asked still decide it?
    fn verdict_on_part(&self, terms: &Terms, now: Instant) -> Verdict {
        let Asks { order, reached, .. } = &self.asks;
        if *reached == order.len() {
            return Verdict::Open;
        }
        // Where one node is asked before all others, who loses there disturbs no other.
        if let (1, Vote::Held { remaining }) = (reached, &self.ballot.votes()[order[0].0]) {
            return Verdict::Lost(Cause::Contended {
                retry_after: *remaining,
            });
        }
        let not_asked = order.len() - reached;
        let pending = self.ballot.pending() - not_asked;
        let has_failed = |node: &NodeId| matches!(self.ballot.votes()[node.0], Vote::Failed(_));
        let any_failed = order[..*reached].iter().any(has_failed);
        // Who refuses is not made up for at once: most likely the others refuse too.
        if pending > 0 && !any_failed && now < self.next_due(terms) {
            Verdict::Open
        } else {
            Verdict::Widen
        }
    }

    fn verdict_on_confirmation(&mut self, closed: bool) -> Verdict {
        let Some(confirmation) = &mut self.confirmation else {
            return Verdict::Confirm;
        };
        if closed {
            confirmation.ballot.close();
        }
        if !confirmation.ballot.is_out_of_reach() {
            return Verdict::Open;
        }
        // The keys are gone again, or the nodes that granted them are.
        Verdict::Lost(Cause::TooSlow)
    }

    /// Too few nodes for a majority: because they are out of reach, or only for now?
    fn outage(&self) -> Cause {
        let votes = self.ballot.votes();
        let mut quarantined: Vec<Duration> = votes
            .iter()
            .filter_map(|vote| match vote {
                Vote::Failed(Fault::Quarantined(remaining)) => Some(*remaining),
                _ => None,
            })
            .collect();
        quarantined.sort_unstable();
        let failed = |vote: &&Vote| matches!(vote, Vote::Failed(_));
        let able = votes.len() - votes.iter().filter(failed).count();
        let missing = quorum::majority(votes.len()).saturating_sub(able);
        match missing
            .checked_sub(1)
            .and_then(|last| quarantined.get(last))
        {
            Some(&ready_in) => Cause::Quarantined { ready_in },
            None => Cause::NoQuorum,
        }
    }

    fn token(&self) -> Option<Token> {
        let confirmed = self.confirmation.as_ref();
        let confirmed = confirmed.filter(|confirmation| confirmation.ballot.is_won());
        self.grants
            .agreed(self.node_count())
            .or_else(|| confirmed.map(|confirmation| confirmation.token))
    }

    /// What is to be released, and what the caller is told.
    pub(super) fn into_refusal(self, cause: Cause) -> (Claim, Refusal) {
        let mut votes = self.ballot.into_votes();
        for node in &self.asks.order[self.asks.reached..] {
            votes[node.0] = Vote::NotAsked;
        }
        (self.claim, Refusal { cause, votes })
    }

    /// When as many of the refusing nodes as a majority lacks will have let go of the key by
    /// themselves. `None` if that can not be told: a key without expiry.
    fn retry_after(&self) -> Option<Duration> {
        let mut remaining: Vec<Duration> = self
            .ballot
            .votes()
            .iter()
            .filter_map(|vote| match vote {
                Vote::Held { remaining } => *remaining,
                _ => None,
            })
            .collect();
        remaining.sort_unstable();
        let last = self.ballot.missing().checked_sub(1)?;
        remaining.get(last).copied()
    }
}

#[cfg(test)]
impl Attempt {
    /// One that has asked all nodes.
    pub(super) fn broadcast(nodes: usize, now: Instant) -> Self {
        let order = (0..nodes).map(NodeId).collect();
        let asks = Asks::new(order, Duration::ZERO);
        let claim = Claim::new("k".into(), super::message::Owner(1), nodes);
        let mut attempt = Self::new(claim, asks, Token::default(), now);
        attempt.reach(nodes);
        attempt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(5);

    fn terms() -> Terms {
        Terms::of(LEASE)
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(0).after(Duration::from_millis(millis))
    }

    fn held(millis: u64) -> Vote {
        Vote::Held {
            remaining: Some(Duration::from_millis(millis)),
        }
    }

    fn attempt(votes: &[Vote]) -> Attempt {
        let mut attempt = Attempt::broadcast(5, at(0));
        for (node, vote) in votes.iter().enumerate() {
            match vote {
                Vote::Ours => attempt.on_grant(NodeId(node), Token(7), at(0)),
                vote => attempt.on_vote(NodeId(node), vote.clone()),
            }
        }
        attempt
    }

    #[test]
    fn the_lease_counts_from_before_the_first_send() {
        let mut attempt = attempt(&[Vote::Ours, Vote::Ours, Vote::Ours]);
        assert_eq!(
            attempt.verdict(&terms(), at(100)),
            Verdict::Won {
                deadline: at(5_000),
                token: Token(7),
            }
        );
    }

    #[test]
    fn a_quorum_with_too_little_left_of_the_lease_is_refused() {
        let mut attempt = attempt(&[Vote::Ours, Vote::Ours, Vote::Ours]);
        let mut patient = terms();
        patient.node_timeout = LEASE;
        assert_eq!(
            attempt.verdict(&patient, at(4_501)),
            Verdict::Lost(Cause::TooSlow)
        );
    }

    #[test]
    fn a_retry_makes_sense_once_enough_nodes_let_go() {
        // Two more of the refusing three are needed beside the one that is still open.
        let mut attempt = attempt(&[Vote::Ours, held(900), held(30), held(500)]);
        assert_eq!(
            attempt.verdict(&terms(), at(1)),
            Verdict::Lost(Cause::Contended {
                retry_after: Some(Duration::from_millis(30))
            })
        );
    }

    #[test]
    fn keys_without_expiry_give_no_time_to_retry() {
        let forever = Vote::Held { remaining: None };
        let mut attempt = attempt(&[forever.clone(), forever.clone(), forever]);
        assert_eq!(
            attempt.verdict(&terms(), at(1)),
            Verdict::Lost(Cause::Contended { retry_after: None })
        );
    }

    #[test]
    fn silence_is_an_outage_and_refusal_is_contention() {
        let mut silent = attempt(&[Vote::Ours, held(10)]);
        assert_eq!(silent.verdict(&terms(), at(249)), Verdict::Open);
        assert_eq!(
            silent.verdict(&terms(), at(250)),
            Verdict::Lost(Cause::NoQuorum)
        );
    }

    #[test]
    fn grants_that_disagree_are_confirmed_by_the_nodes_that_were_heard() {
        let mut attempt = Attempt::broadcast(5, at(0));
        for (node, counter) in [(0, 7), (1, 9), (2, 7)] {
            attempt.on_grant(NodeId(node), Token(counter), at(0));
        }
        assert_eq!(attempt.verdict(&terms(), at(1)), Verdict::Confirm);
        let (token, nodes) = attempt.begin_confirmation();
        assert_eq!(token, Token(9));
        assert_eq!(nodes, [0, 1, 2].map(NodeId));
        // Not one of those that were asked to confirm.
        attempt.on_confirmation(NodeId(3), Vote::Ours);
        attempt.on_confirmation(NodeId(0), Vote::Ours);
        attempt.on_confirmation(NodeId(1), Vote::Ours);
        assert_eq!(attempt.verdict(&terms(), at(2)), Verdict::Open);
        attempt.on_confirmation(NodeId(2), Vote::Ours);
        assert_eq!(
            attempt.verdict(&terms(), at(2)),
            Verdict::Won {
                deadline: at(5_000),
                token: Token(9),
            }
        );
    }

    #[test]
    fn one_node_of_the_few_that_granted_can_undo_a_confirmation() {
        let mut attempt = Attempt::broadcast(5, at(0));
        for (node, counter) in [(0, 7), (1, 9), (2, 7)] {
            attempt.on_grant(NodeId(node), Token(counter), at(0));
        }
        attempt.begin_confirmation();
        attempt.on_confirmation(NodeId(2), Vote::NotOwner);
        assert_eq!(
            attempt.verdict(&terms(), at(2)),
            Verdict::Lost(Cause::TooSlow)
        );
    }

    #[test]
    fn a_late_grant_can_spare_the_confirmation() {
        let mut attempt = Attempt::broadcast(5, at(0));
        for (node, counter) in [(0, 7), (1, 9), (2, 7)] {
            attempt.on_grant(NodeId(node), Token(counter), at(0));
        }
        attempt.begin_confirmation();
        attempt.on_grant(NodeId(3), Token(7), at(0));
        assert!(matches!(
            attempt.verdict(&terms(), at(2)),
            Verdict::Won {
                token: Token(7),
                ..
            }
        ));
    }
}
