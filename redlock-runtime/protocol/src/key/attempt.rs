//! One attempt of the front waiter to get the lock.
//!
//! The first attempt asks all nodes at once: the fastest majority decides. While the nodes are busy
//! it asks only as many as a majority needs, and the others as soon as one of those fails or is
//! late. After a refusal an attempt is *leader-first*: one node, the same for all processes, and the
//! others once it has granted. So at most one of many processes that hear at once that the lock is
//! free disturbs the others.
//!
//! A refusal is not always contention. If several processes ask at the same instant, each may get
//! less than a majority. No owner holds the lock then, and the attempt is repeated leader-first, also
//! for a waiter that does not wait: of any number of them exactly one wins.

use std::{sync::Arc, time::Duration};

use super::{
    Ask, Claim, Cx, Front, Key, Waiter,
    round::{Failure, Fanout, Progress, Round},
    turn::{BLOCK, Held, TURN},
    waiting::Split,
};
use crate::{
    action::{Answer, Cause, Refusal, Verdict},
    ask::RoundId,
    message::{AdmissionId, BlockRequest, NodeId, Owner, Reply, Request, RequestId},
    rules::{
        quorum,
        token::{Block, Token},
    },
    time::Instant,
};

/// While one node's word is enough, one in so many attempts asks all nodes.
const ASKS_ALL_EVERY: u32 = 2;

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) waiter: Waiter,
    pub(super) claim: Claim,
    pub(super) round: Round,
    /// How many nodes are asked at first.
    many: usize,
    split: Option<Split>,
    /// What kept the waiter from the lock has gone away since the nodes were asked.
    pub(super) asks_again: bool,
    has_remote_waiter: bool,
}

/// Whom an attempt asks first.
#[derive(Clone, Copy, Debug)]
pub(super) enum Opening {
    Broadcast,
    LeaderFirst,
    /// The same, as one of the attempts to end a split.
    After(Split),
}

impl Attempt {
    pub(super) fn next_due(&self) -> Instant {
        self.round.next_due()
    }
}

impl Key {
    /// Asks for the lock under a new owner. The lease counts from now.
    pub(super) fn attempt(&mut self, waiter: Waiter, opening: Opening, cx: &mut Cx<'_>) {
        let now = cx.now();
        if !cx.nodes.has_majority(now) {
            return self.refuse_without_asking(waiter, cx);
        }
        let random = (cx.out.env.random)();
        let process = u128::from(cx.nodes.process().0);
        let owner = Owner(process << 64 | u128::from(random as u64));
        let nodes = cx.nodes.count();
        let closes_at = match opening {
            Opening::After(split) => split.until,
            _ => now.after(waiter.params.round_timeout()),
        };
        let (is_leader_first, split) = match opening {
            Opening::Broadcast => (false, None),
            Opening::LeaderFirst => (true, None),
            Opening::After(split) => (true, Some(split)),
        };
        let many = if cx.nodes.are_busy(cx.out.settings.busy_from) {
            quorum::majority(nodes)
        } else {
            nodes
        };
        let proposal = Token((cx.out.env.wall_micros)().min(Token::LARGEST.0 / 2));
        let queued = !self.queue.is_empty() && !cx.out.settings.mixed_fleet;
        let (length, spare) = if queued {
            (BLOCK, TURN)
        } else {
            (1, Duration::ZERO)
        };
        let block = Some(BlockRequest { proposal, length });
        let hedge_delay = cx.nodes.hedge_delay(now);
        let hedge_delay = hedge_delay.min(waiter.params.round_timeout() / 4);
        // A split ends because all who met ask the same node first.
        let order = cx
            .nodes
            .order(&self.name, (hedge_delay, split.is_none()), now);
        let round = self.open_round(
            Fanout::new(order, hedge_delay),
            block,
            (waiter.params.key_ttl(), spare),
            (now, closes_at.min(now.after(waiter.params.round_timeout()))),
            cx,
        );
        let mut attempt = Attempt {
            waiter,
            claim: Claim::new(owner, nodes),
            round,
            many,
            split,
            asks_again: false,
            has_remote_waiter: false,
        };
        let first = attempt.round.reach(if is_leader_first { 1 } else { many });
        self.ask_to_grant(&mut attempt, &first, cx);
        self.front = Front::Acquiring(attempt);
    }

    /// A round of which the nodes without a vote are told already.
    pub(super) fn open_round(
        &mut self,
        fanout: Fanout,
        block: Option<BlockRequest>,
        ttl: (Duration, Duration),
        (started, closes_at): (Instant, Instant),
        cx: &mut Cx<'_>,
    ) -> Round {
        let id = self.new_round();
        let nodes = cx.nodes.count();
        let mut round = Round::new(id, nodes, fanout, block, ttl, (started, closes_at));
        for node in cx.nodes.ids() {
            if let Some(verdict) = cx.nodes.verdict(node, started) {
                round.on_verdict(node, verdict, started);
            }
        }
        round
    }

    fn ask_to_grant(&self, attempt: &mut Attempt, nodes: &[NodeId], cx: &mut Cx<'_>) {
        let now = cx.now();
        let Attempt {
            waiter,
            claim,
            round,
            ..
        } = attempt;
        let Some(block) = round.block else { return };
        let ttl = round.ttl + round.spare;
        for &node in nodes {
            let body = Request::Acquire {
                key: Arc::clone(&self.name),
                owner: claim.owner,
                ttl,
                block,
                admission: AdmissionId(0),
                waits: now < waiter.wait_until,
            };
            claim.on_acquire(node, cx.nodes.next_request(), ttl, now);
            let ask = Ask::Acquire(round.id, claim.owner);
            if let Err(verdict) = cx.nodes.ask(node, (self.id, ask), body, &mut cx.out) {
                claim.on_absent(node, cx.nodes.next_request());
                round.on_verdict(node, verdict, now);
            }
        }
    }

    pub(super) fn on_vote(
        &mut self,
        (node, request): (NodeId, RequestId),
        (id, owner): (RoundId, Owner),
        reply: Reply,
        cx: &mut Cx<'_>,
    ) {
        let now = cx.now();
        if let Some(claim) = self.claim_of(owner) {
            match &reply {
                // A grant that comes after the verdict is known, too: it is released with the rest.
                Reply::Granted { .. } => claim.on_granted(node),
                Reply::Held { .. } => claim.on_absent(node, request),
                Reply::Refused {
                    is_untouched: true, ..
                } => claim.on_refused(node, request),
                _ => {}
            }
        }
        if let Reply::Granted {
            has_remote_waiter: true,
            ..
        } = reply
        {
            self.on_remote_waiter(owner);
        }
        let Some(round) = self.round(id) else { return };
        match reply {
            Reply::Granted { first, .. } if first.is_plausible() => {
                round.on_yes(node, Some(first), now);
            }
            Reply::Held { owner, remaining } => {
                let verdict = Verdict::HeldByAnother { remaining };
                round.on_held(node, owner, verdict, now);
            }
            reply => round.on_verdict(node, unexpected(reply), now),
        }
    }

    pub(super) fn on_remote_waiter(&mut self, owner: Owner) {
        match &mut self.front {
            Front::Acquiring(attempt) if attempt.claim.owner == owner => {
                attempt.has_remote_waiter = true;
            }
            Front::Held(held) => held.on_remote_waiter(owner),
            _ => {}
        }
    }

    pub(super) fn advance_attempt(&mut self, cx: &mut Cx<'_>) -> bool {
        let now = cx.now();
        let Front::Acquiring(attempt) = &mut self.front else {
            return false;
        };
        let progress = attempt.round.progress(now);
        if progress == Progress::Open {
            return false;
        }
        let Front::Acquiring(mut attempt) = self.take_front() else {
            return false;
        };
        match progress {
            Progress::Open => {}
            Progress::AskMore => {
                let more = attempt.round.widen(attempt.many);
                self.ask_to_grant(&mut attempt, &more, cx);
                self.front = Front::Acquiring(attempt);
            }
            Progress::Won(block) => self.on_won(attempt, block, cx),
            Progress::Disagrees => self.ask_for_higher(attempt, cx),
            Progress::Failed(failure) => self.on_failed(attempt, failure, cx),
        }
        true
    }

    /// The nodes have granted different numbers: asks those that may have the key for a block above
    /// them. That is a refresh of a turn that has not begun.
    fn ask_for_higher(&mut self, mut attempt: Attempt, cx: &mut Cx<'_>) {
        let now = cx.now();
        let Some(mut block) = attempt.round.block else {
            return;
        };
        // Not the wall clock again: nodes grant no number that is far ahead of theirs, so one that is
        // wrong would never make them agree.
        block.proposal = attempt.round.next_proposal();
        let may_have = |node: &NodeId| attempt.claim.may_have(*node);
        let order: Vec<NodeId> = cx.nodes.in_order(&self.name).filter(may_have).collect();
        let count = order.len();
        let Round { ttl, spare, .. } = attempt.round;
        let times = (now, attempt.round.closes_at);
        let fanout = Fanout::new(order, cx.nodes.hedge_delay(now));
        attempt.round = self.open_round(fanout, Some(block), (ttl, spare), times, cx);
        attempt.round.is_repeated = true;
        for node in cx.nodes.ids() {
            if !attempt.claim.may_have(node) {
                attempt.round.on_verdict(node, Verdict::NoLongerOurs, now);
            }
        }
        let nodes = attempt.round.reach(count);
        attempt.claim.raise_ttl(ttl + spare);
        self.ask_to_extend(&mut attempt.round, attempt.claim.owner, &nodes, cx);
        self.front = Front::Acquiring(attempt);
    }

    fn on_won(&mut self, attempt: Attempt, block: Option<Block>, cx: &mut Cx<'_>) {
        let now = cx.now();
        self.last_refusal = None;
        self.order.on_own_turn();
        let is_single = cx.out.settings.mixed_fleet;
        let Attempt {
            waiter,
            claim,
            round,
            has_remote_waiter,
            ..
        } = attempt;
        let mut held = Held::begin(claim, &round, block, (has_remote_waiter, is_single), now);
        held.start(waiter, cx);
        self.front = Front::Held(held);
    }

    /// Releases everything before the next attempt, which carries a new owner.
    fn on_failed(&mut self, attempt: Attempt, failure: Failure, cx: &mut Cx<'_>) {
        let now = cx.now();
        let Attempt {
            mut waiter,
            claim,
            round,
            split,
            asks_again,
            ..
        } = attempt;
        waiter.lost_attempts += 1;
        let closes_at = round.closes_at;
        // One node's word is enough as long as it names the owner that is known to hold the lock. Not
        // for ever: a node that cannot delete names that owner until the key expires.
        let asks_all = if round.is_lost_at_leader() {
            round.holder() != self.holder || waiter.lost_attempts.is_multiple_of(ASKS_ALL_EVERY)
        } else {
            let is_held = matches!(failure, Failure::Held { .. });
            self.holder = round.holder().filter(|_| is_held);
            !is_held
        };
        waiter.asks_all = asks_all;
        let cause = match failure {
            Failure::Held { retry_after } | Failure::Split { retry_after } => {
                Cause::Contended { retry_after }
            }
            // The last of several attempts, which had less than its time.
            Failure::Outage(Cause::NoQuorum) if split.is_some() => {
                Cause::Contended { retry_after: None }
            }
            Failure::Outage(cause) => cause,
        };
        let refusal = Refusal {
            cause,
            verdicts: round.into_verdicts(),
        };
        self.last_refusal = Some(refusal.clone());
        self.release(claim, Vec::new(), cx);
        if asks_again && now < waiter.wait_until {
            return self.attempt(waiter, Opening::Broadcast, cx);
        }
        let is_split = matches!(failure, Failure::Split { .. }) && now < closes_at;
        if is_split {
            let split = split.unwrap_or_else(|| Split::new(closes_at));
            return self.end_split(waiter, refusal, split, cx);
        }
        self.back_off_or_refuse(waiter, refusal, cx);
    }

    /// No majority can vote: nothing is sent that could not be of use.
    fn refuse_without_asking(&mut self, mut waiter: Waiter, cx: &mut Cx<'_>) {
        let now = cx.now();
        waiter.lost_attempts += 1;
        let fanout = Fanout::new(Vec::new(), Duration::ZERO);
        let nothing = (Duration::ZERO, Duration::ZERO);
        let times = (now, now.after(waiter.params.round_timeout()));
        let mut round = self.open_round(fanout, None, nothing, times, cx);
        let cause = match round.progress(now) {
            Progress::Failed(Failure::Outage(cause)) => cause,
            _ => Cause::NoQuorum,
        };
        let refusal = Refusal {
            cause,
            verdicts: round.into_verdicts_unasked(),
        };
        self.last_refusal = Some(refusal.clone());
        self.back_off_or_refuse(waiter, refusal, cx);
    }

    pub(super) fn back_off_or_refuse(&mut self, waiter: Waiter, refusal: Refusal, cx: &mut Cx<'_>) {
        if cx.now() >= waiter.wait_until {
            self.front = Front::FREE;
            return cx.answer(waiter.section, Answer::Refused(refusal));
        }
        self.back_off(waiter, refusal, cx);
    }

    /// The front waiter goes away.
    pub(super) fn cancel_front(&mut self, cx: &mut Cx<'_>) {
        match self.take_front() {
            Front::Acquiring(attempt) => self.release(attempt.claim, Vec::new(), cx),
            Front::BackingOff(backoff) => {
                self.front = Front::Free {
                    stand_back_until: backoff.stands_back_until(),
                };
            }
            other => self.front = other,
        }
    }
}

/// What a node said that did not answer the question.
pub(super) fn unexpected(reply: Reply) -> Verdict {
    match reply {
        Reply::Refused { message, .. } => Verdict::Refused { message },
        Reply::Garbled { answer } => Verdict::Garbled { answer },
        other => Verdict::Garbled {
            answer: format!("{other:?}").into(),
        },
    }
}
