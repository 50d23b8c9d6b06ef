//! One question to the nodes, and their replies.
//!
//! An acquisition and a refresh are the same to this file: a majority of verdicts, and if tokens are
//! wanted, a majority that reports one number. A reply counts only for the round that asked, once
//! per node, and not after the round has closed.

use std::time::Duration;

use super::question::{Fanout, Question};
use crate::{
    action::{Cause, Verdict},
    message::{Ahead, Mode, NodeId, Owner, Reply},
    node::Nodes,
    purpose::RoundId,
    rules::{
        agreement::Numbers,
        ballot::Ballot,
        quorum,
        token::{Block, Token},
    },
    time::Instant,
};

#[derive(Debug)]
pub(super) struct Round {
    pub(super) id: RoundId,
    /// Read before the first request; the lease counts from here.
    pub(super) started: Instant,
    /// Nothing counts any more then.
    pub(super) closes_at: Instant,
    pub(super) question: Question,
    pub(super) ballot: Ballot,
    numbers: Numbers,
    /// When a number came last.
    pub(super) heard_at: Instant,
    /// The nodes that refused, and whose the key was there.
    pub(super) holders: Vec<(NodeId, Option<Owner>)>,
    /// Those that the leader prefers to this process, if it has said so.
    pub(super) ahead: Option<Ahead>,
    /// The lock is free there, and for them.
    pub(super) is_queued: bool,
    pub(super) fanout: Fanout,
    /// When a node was asked last.
    pub(super) asked_at: Instant,
    /// Nodes to ask once it is known whether they vote.
    pub(super) unsent: Vec<NodeId>,
}

/// What a round has come to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Open,
    /// The nodes that were asked do not decide it, or not in time.
    AskMore,
    /// A majority said yes, and agrees on the block that was wanted.
    Won(Option<Block>),
    /// A majority said yes, but reported different numbers.
    Disagrees,
    /// No majority can say yes any more.
    Failed(Failure),
}

impl Round {
    /// Nodes that are not in the fan-out have no vote, and the caller gives the reason at once.
    pub(super) fn new(
        id: RoundId,
        nodes: usize,
        question: Question,
        fanout: Fanout,
        (started, closes_at): (Instant, Instant),
    ) -> Self {
        Self {
            id,
            started,
            closes_at,
            question,
            ballot: Ballot::new(nodes),
            numbers: Numbers::default(),
            heard_at: started,
            holders: Vec::new(),
            ahead: None,
            is_queued: false,
            fanout,
            asked_at: started,
            unsent: Vec::new(),
        }
    }

    /// When to look at it again at the latest.
    pub(super) fn next_due(&self, now: Instant) -> Instant {
        let hedges = self.fanout.reached < self.fanout.order.len()
            || self.ballot.is_won()
            || self.ballot.is_out_of_reach()
            || !self.holders.is_empty();
        let due = hedges.then(|| self.hedge_at()).filter(|&at| at > now);
        due.unwrap_or(self.closes_at)
    }

    /// When nodes that do not reply are not waited for any more.
    fn hedge_at(&self) -> Instant {
        let reached = self.fanout.reached;
        let longest = self.question.params.round_timeout() / 2;
        let delay = match self.question.params.is_fair {
            // Only the leader knows whose turn it is.
            true if reached == 1 => longest,
            // A split may have lasted for longer, and there must be time to ask the others.
            false if reached == 1 => self.fanout.hedge_delay.min(longest),
            _ if 1 < reached && reached < self.fanout.order.len() => self.fanout.majority_delay,
            _ => self.fanout.hedge_delay,
        };
        self.asked_at.after(delay).min(self.closes_at)
    }

    /// Counts what a node has said, unless its clock has run ahead by so much that it has no vote.
    pub(super) fn on_vote(
        &mut self,
        node: NodeId,
        reply: Reply,
        lead: Option<Duration>,
        now: Instant,
    ) {
        let verdict = match (reply, lead) {
            // Whatever it says: its keys may expire before the lease does, so its yes is worth nothing.
            (_, Some(by)) => Verdict::ClockAhead { by },
            // Only numbers that a sound counter can reach: one node must not bring all others to the end of theirs.
            (Reply::Granted { first, .. }, _) if first.is_plausible() => {
                return self.on_yes(node, Some(first), now);
            }
            (Reply::Extended { first, .. }, _) if first.is_none_or(Token::is_plausible) => {
                return self.on_yes(node, first, now);
            }
            (
                Reply::Held {
                    owner,
                    remaining,
                    ahead,
                },
                _,
            ) => {
                // Only the leader keeps the queue.
                if self.on_held(node, owner, remaining, now) && self.is_leader(node) {
                    self.ahead = Some(ahead.believed());
                }
                return;
            }
            (Reply::Queued(ahead), _) => {
                let remaining = Some(ahead.grace);
                if self.on_verdict(node, Verdict::HeldByAnother { remaining }, now) {
                    (self.ahead, self.is_queued) = (Some(ahead.believed()), true);
                }
                return;
            }
            (Reply::NotOwner, _) => Verdict::NoLongerOurs,
            (Reply::Refused { message, .. }, _) => Verdict::Refused { message },
            (Reply::Garbled { answer }, _) => Verdict::Garbled { answer },
            // A reply to another kind of request: the node does not do what its scripts say, so it has no vote.
            (other, _) => Verdict::Garbled {
                answer: format!("{other:?}").into(),
            },
        };
        self.on_verdict(node, verdict, now);
    }

    /// A node has said yes, and reported the first number of its block, if one was wanted.
    fn on_yes(&mut self, node: NodeId, first: Option<Token>, now: Instant) {
        if !self.on_verdict(node, Verdict::Ours, now) {
            return;
        }
        if self.is_leader(node) {
            self.ahead = Some(Ahead::default());
        }
        if let Some(first) = first {
            self.numbers.hear(first);
            self.heard_at = now;
        }
    }

    /// A node has refused, because another owner has the key.
    fn on_held(
        &mut self,
        node: NodeId,
        owner: Option<Owner>,
        remaining: Option<Duration>,
        now: Instant,
    ) -> bool {
        let counts = self.on_verdict(node, Verdict::HeldByAnother { remaining }, now);
        if counts {
            self.holders.push((node, owner));
        }
        counts
    }

    /// The first verdict of each node counts, if it comes in time. Whether this one does.
    pub(super) fn on_verdict(&mut self, node: NodeId, verdict: Verdict, now: Instant) -> bool {
        // See `LONGEST_ROUND`: the node may have forgotten a vote that arrives later.
        now < self.closes_at && self.ballot.cast(node, verdict)
    }

    /// Falls at a majority, at impossibility, or when the round closes: never later.
    pub(super) fn progress(&mut self, now: Instant) -> Progress {
        if now >= self.closes_at {
            // Later votes must not count: a node that lost its memory may vote again after the longest round.
            self.ballot.close();
        }
        // Before the ballot: a majority that was granted out of order would overtake those ahead.
        if self.is_put_off() || self.lost_at_leader().is_some() {
            return Progress::Failed(Failure::Held);
        }
        if self.ballot.is_won() {
            // The leader was waited for, and the clock has passed the end unheard.
            let is_late = self.is_ordered() && now >= self.closes_at;
            return match self.awaits_leader(now) {
                _ if is_late => Progress::Failed(Failure::Outage(Cause::NoQuorum)),
                true if !self.has_asked_leader() => Progress::AskMore,
                true => Progress::Open,
                false => self.progress_of_numbers(now),
            };
        }
        if !self.ballot.is_out_of_reach() {
            return self.progress_of_part(now);
        }
        // Refusals are votes, too: if too few nodes gave any, this is an outage and not contention.
        if self.ballot.lacks_quorum() {
            return Progress::Failed(Failure::Outage(outage(self.ballot.verdicts())));
        }
        let majority = quorum::majority(self.ballot.verdicts().len());
        let most = self.most_of_one();
        // An owner with a majority may have the lock, so it is none of several that have met.
        if most >= majority {
            Progress::Failed(Failure::Held)
        } else if most + self.unanswered() >= majority && now < self.hedge_at() && !self.is_first()
        {
            // The nodes that have not replied tell whether that owner holds the lock.
            Progress::Open
        } else {
            // No owner is known to have a majority: all that have met ask again, in the order of the queue.
            Progress::Failed(Failure::Split)
        }
    }

    fn progress_of_numbers(&mut self, now: Instant) -> Progress {
        let Some(block) = self.question.block else {
            return Progress::Won(None);
        };
        let nodes = self.ballot.verdicts().len();
        // One number from a majority *to this round*: `rules::token` shows that no other round can win it, too.
        if let Some(first) = self.numbers.agreed(nodes) {
            return Progress::Won(Some(Block::new(first, block.length)));
        }
        // A node whose counter is far off may always be among the first to reply, and nothing can be
        // built on what it says: the others are asked, and after a second disagreement waited for.
        let can_agree = self.numbers.can_agree(nodes, self.ballot.pending());
        if can_agree && self.fanout.reached < self.fanout.order.len() {
            self.question.is_repeated = true;
            return Progress::AskMore;
        }
        if self.question.is_repeated && can_agree && now < self.hedge_at() {
            Progress::Open
        } else {
            Progress::Disagrees
        }
    }

    /// If one node is asked before all others, a loser there disturbs no other. What that node said.
    pub(super) fn lost_at_leader(&self) -> Option<&Verdict> {
        let Fanout { order, reached, .. } = &self.fanout;
        let leader = order.first().filter(|_| *reached == 1)?;
        let verdict = &self.ballot.verdicts()[leader.0];
        matches!(verdict, Verdict::HeldByAnother { .. }).then_some(verdict)
    }

    /// The order counts, and others come first.
    fn is_put_off(&self) -> bool {
        self.is_in_order() && self.is_queued
    }

    /// The order counts, and the node that knows it has not said what it is.
    fn awaits_leader(&self, now: Instant) -> bool {
        let leader = self.question.leader;
        let is_open = |leader: NodeId| self.ballot.verdicts()[leader.0].is_open();
        self.is_ordered() && leader.is_some_and(is_open) && now < self.hedge_at()
    }

    /// Too many refuse, and the leader is one of them.
    pub(super) fn is_lost(&self) -> bool {
        let refuses = |&(node, _): &(NodeId, Option<Owner>)| self.is_leader(node);
        self.ballot.is_out_of_reach() && self.holders.iter().any(refuses)
    }

    /// It may be none of the majority that is asked first: see `Nodes::order`.
    fn has_asked_leader(&self) -> bool {
        let Fanout { order, reached, .. } = &self.fanout;
        order[..*reached].iter().any(|&node| self.is_leader(node))
    }

    /// Readers do not join others while somebody waits to have the lock alone.
    fn is_ordered(&self) -> bool {
        self.is_in_order() || self.question.params.mode == Mode::Shared
    }

    /// The leader has said that it is its turn. Others that have asked at once give way.
    pub(super) fn is_first(&self) -> bool {
        self.is_in_order() && self.is_granted_by(self.question.leader)
    }

    /// The order of the queue counts.
    pub(super) fn is_in_order(&self) -> bool {
        self.question.ticket.is_some_and(|ticket| ticket.is_ordered)
    }

    pub(super) fn is_leader(&self, node: NodeId) -> bool {
        self.question.leader == Some(node)
    }

    /// Not decided yet. Do the nodes that were asked still decide it?
    fn progress_of_part(&self, now: Instant) -> Progress {
        let Fanout { order, reached, .. } = &self.fanout;
        if *reached == order.len() {
            // The owner that a node named may know no more, and both would wait for silent nodes for as
            // long as a round may last. They are waited for if it was so before.
            let is_split = !self.holders.is_empty() && !self.question.is_repeated;
            return if is_split && now >= self.hedge_at() {
                Progress::Failed(Failure::Split)
            } else {
                Progress::Open
            };
        }
        let pending = self.unanswered();
        // A node that has failed is made up for at once: promise 6 of the guarantees.
        let has_failed = |node: &NodeId| self.ballot.verdicts()[node.0].is_failure();
        let any_failed = order[..*reached].iter().any(has_failed);
        // A refusal is not made up for at once: most likely the other nodes refuse too.
        if pending > 0 && !any_failed && now < self.hedge_at() {
            Progress::Open
        } else {
            Progress::AskMore
        }
    }

    /// This node has said yes.
    pub(super) fn is_granted_by(&self, node: Option<NodeId>) -> bool {
        node.is_some_and(|node| self.ballot.verdicts()[node.0] == Verdict::Ours)
    }

    /// What to be above after a disagreement. Nothing is built on nodes that have been waited for, in this
    /// round or before.
    pub(super) fn reached(&self, nodes: &Nodes, now: Instant, wall_micros: u64) -> Token {
        let verdicts = self.ballot.verdicts();
        let patience = self.fanout.hedge_delay;
        let may_come =
            |node: &NodeId| verdicts[node.0].is_open() && !nodes.is_silent(*node, patience, now);
        // One that stays silent for longer would let a single reply decide what all propose.
        let pending = nodes.ids().filter(may_come).count();
        self.numbers.reached(verdicts.len(), pending, wall_micros)
    }

    /// How many nodes were asked and have given no verdict.
    fn unanswered(&self) -> usize {
        let not_asked = self.fanout.order.len() - self.fanout.reached;
        self.ballot.pending().saturating_sub(not_asked)
    }

    /// When as many of the refusing nodes as a majority lacks will have let go of the key by
    /// themselves. `None` if that cannot be told: a key without expiry.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let remaining = |verdict: &Verdict| match verdict {
            Verdict::HeldByAnother { remaining } => *remaining,
            _ => None,
        };
        if let Some(verdict) = self.lost_at_leader() {
            // One node's word, but nobody else was asked.
            return remaining(verdict);
        }
        let verdicts = self.ballot.verdicts();
        let holder = self.holder().filter(|_| self.is_held());
        let wait = |&(node, owner): &(NodeId, Option<Owner>)| match holder {
            // Beside the holder, others have only asked at the same time. They let go.
            Some(holder) if owner != holder => Some(Duration::ZERO),
            _ => remaining(&verdicts[node.0]),
        };
        wait_for(self.ballot.missing(), self.holders.iter().filter_map(wait))
    }

    /// One owner has a majority.
    pub(super) fn is_held(&self) -> bool {
        self.most_of_one() >= quorum::majority(self.ballot.verdicts().len())
    }

    /// How many nodes have refused because of the owner that has most of them.
    fn most_of_one(&self) -> usize {
        self.holder().map_or(0, |owner| self.held_by(owner))
    }

    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        let mut verdicts = self.ballot.verdicts().to_vec();
        for node in &self.fanout.order[self.fanout.reached..] {
            verdicts[node.0] = Verdict::NotAsked;
        }
        verdicts
    }

    /// The owner that has most of the nodes that refused, if any has refused. Clients of other
    /// libraries count as one owner.
    pub(super) fn holder(&self) -> Option<Option<Owner>> {
        let owners = self.holders.iter().map(|&(_, owner)| owner);
        owners.max_by_key(|&owner| self.held_by(owner))
    }

    /// So many nodes have refused because of this owner. Readers are no owner: none of them need have a majority.
    /// Only for one that does not wait is that worth another attempt.
    pub(super) fn held_by(&self, owner: Option<Owner>) -> usize {
        let ticket = self.question.ticket;
        let waits = ticket.is_some_and(|ticket| !ticket.lasts.is_zero());
        if owner == Some(Owner::READERS) && !waits {
            return 0;
        }
        let is_theirs = |holder: &&(NodeId, Option<Owner>)| holder.1 == owner;
        self.holders.iter().filter(is_theirs).count()
    }
}

/// Why a round has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Another owner has, or may have, the lock.
    Held,
    /// No owner is known to have a majority: several have asked at once.
    Split,
    /// Too few nodes voted.
    Outage(Cause),
}

/// How long until `missing` of the nodes are out of the way, by how long each will be in it.
fn wait_for(missing: usize, waits: impl Iterator<Item = Duration>) -> Option<Duration> {
    let mut waits: Vec<Duration> = waits.collect();
    waits.sort_unstable();
    waits.get(missing.checked_sub(1)?).copied()
}

/// Why a majority cannot vote, by what each node says.
fn outage(verdicts: &[Verdict]) -> Cause {
    let wait = |verdict: &Verdict| match verdict {
        Verdict::Quarantined { remaining, .. } => Some(*remaining),
        _ => None,
    };
    // A node that refused has voted: it is no part of the outage.
    let able = verdicts.iter().filter(|verdict| !verdict.is_failure());
    let missing = quorum::majority(verdicts.len()).saturating_sub(able.count());
    match wait_for(missing, verdicts.iter().filter_map(wait)) {
        Some(ready_in) => Cause::Quarantined { ready_in },
        None => Cause::NoQuorum,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::question::Kind;
    use super::*;
    use crate::{
        action::QuarantineReason,
        message::{BlockRequest, Ticket},
        rules::validity::LockParams,
    };

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(0).after(Duration::from_millis(millis))
    }

    /// A round that asks `first` of five nodes at first, and closes after 250 ms.
    fn round(first: usize) -> Round {
        let order = (0..5).map(NodeId).collect();
        let fanout = Fanout::new(order, Duration::from_millis(10));
        let block = BlockRequest {
            proposal: Token(1),
            length: 4,
        };
        let question = Question {
            kind: Kind::Extend,
            params: Arc::new(LockParams::of(Duration::from_secs(1))),
            spare: Duration::ZERO,
            block: Some(block),
            is_repeated: false,
            leader: None,
            ticket: None,
            note: None,
        };
        let mut round = Round::new(RoundId(1), 5, question, fanout, (at(0), at(250)));
        round.fanout.reach(first);
        round
    }

    fn say(round: &mut Round, numbers: &[u64]) {
        for (node, &number) in numbers.iter().enumerate() {
            round.on_yes(NodeId(node), Some(Token(number)), at(1));
        }
    }

    #[test]
    fn a_majority_that_disagrees_has_no_token() {
        let mut round = round(5);
        say(&mut round, &[7, 9, 7]);
        assert_eq!(round.progress(at(1)), Progress::Disagrees);
    }

    #[test]
    fn nothing_counts_after_a_round_has_closed() {
        let mut round = round(5);
        say(&mut round, &[7, 7]);
        round.on_yes(NodeId(2), Some(Token(7)), at(250));
        let outage = Failure::Outage(Cause::NoQuorum);
        assert_eq!(round.progress(at(250)), Progress::Failed(outage));
    }

    #[test]
    fn more_nodes_are_asked_as_soon_as_one_of_the_first_fails() {
        let mut failed = round(3);
        failed.on_verdict(NodeId(1), Verdict::TimedOut, at(1));
        assert_eq!(failed.progress(at(1)), Progress::AskMore);
    }

    #[test]
    fn a_majority_that_does_not_know_the_order_is_not_enough() {
        let mut round = round(5);
        let ticket = Ticket {
            came: 1,
            waited: Duration::ZERO,
            lasts: Duration::ZERO,
            grace: Duration::ZERO,
            is_ordered: true,
        };
        (round.question.leader, round.question.ticket) = (Some(NodeId(0)), Some(ticket));
        for node in 1..4 {
            round.on_yes(NodeId(node), Some(Token(7)), at(1));
        }
        let queued = Reply::Queued(Ahead::default());
        round.on_vote(NodeId(0), queued, None, at(9));
        assert_eq!(round.progress(at(9)), Progress::Failed(Failure::Held));
    }

    /// And does not wait for those that have only asked.
    #[test]
    fn a_retry_makes_sense_once_enough_nodes_let_go() {
        let mut round = round(5);
        let refusals = [(1, 900), (1, 30), (1, 50), (2, 999), (3, 999)];
        for (node, (owner, millis)) in refusals.into_iter().enumerate() {
            let remaining = Some(Duration::from_millis(millis));
            round.on_held(NodeId(node), Some(Owner(owner)), remaining, at(1));
        }
        assert_eq!(round.retry_after(), Some(Duration::from_millis(30)));
    }

    #[test]
    fn an_outage_that_ends_by_itself_says_when() {
        let quarantined = |millis| Verdict::Quarantined {
            reason: QuarantineReason::Flushed,
            remaining: Duration::from_millis(millis),
        };
        let timed_out = Verdict::TimedOut;
        let verdicts = [quarantined(9), timed_out.clone(), quarantined(5)];
        assert_eq!(
            outage(&verdicts),
            Cause::Quarantined {
                ready_in: Duration::from_millis(9)
            }
        );
        let verdicts = [quarantined(9), timed_out.clone(), timed_out];
        assert_eq!(outage(&verdicts), Cause::NoQuorum);
    }
}
