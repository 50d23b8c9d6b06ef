//! One attempt of the front waiter to get the lock.
//!
//! The first attempt asks all nodes at once: the fastest majority decides. While the nodes are busy
//! (`Nodes::are_busy`) it asks only a majority, and the others as soon as one of that majority fails or is late,
//! or they do not agree. That majority is the same for all processes, and different for each key; a lock that
//! is held for a while is put on the other nodes, too. After a refusal an attempt is *leader-first*: it asks one
//! node, the same for all processes, and the others once that one has granted. So of many processes that learn
//! at once that the lock is free, at most one disturbs the others.
//!
//! A refusal is not always contention. If several processes ask at the same instant, each may get
//! less than a majority. Then no owner holds the lock, and the attempt is repeated leader-first, even
//! for a waiter that does not wait: of any number of them exactly one wins.

use std::{sync::Arc, time::Duration};

use super::{
    Claim, Cx, Front, Key, Waiter,
    failure::Failure,
    question::{Fanout, Kind, Question},
    report::Reports,
    round::{Progress, Round},
    turn::{Held, TURN},
    waiting::Split,
};
use crate::{
    action::{Answer, Cause, Refusal},
    message::{BlockRequest, Owner},
    rules::{
        proposal::{BLOCK, SMALL_BLOCK},
        quorum,
        token::{Block, Token},
    },
};

/// While one node's word is enough, one in so many attempts asks all nodes.
const ASKS_ALL_EVERY: u32 = 2;

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) waiter: Waiter,
    pub(super) claim: Claim,
    pub(super) round: Round,
}

impl Attempt {
    /// The nodes have granted different numbers: asks those that may have the key for a block above
    /// them. That is a refresh of a turn that has not begun.
    fn ask_for_higher(&mut self, cx: &mut Cx<'_>) {
        let mut question = self.round.question.clone();
        question.kind = Kind::Extend;
        question.is_repeated = true;
        // Not the wall clock again: nodes grant no number that is far ahead of theirs, so one that is
        // wrong would never make them agree.
        question.block = self.claim.after_disagreement(&self.round, cx);
        self.round = Round::extend(question, &mut self.claim, self.round.closes_at, cx);
    }
}

impl Key {
    /// Asks for the lock under a new owner. The lease counts from now. If no majority can vote,
    /// nothing is sent that could not be of use.
    pub(super) fn attempt(&mut self, mut waiter: Waiter, is_leader_first: bool, cx: &mut Cx<'_>) {
        let process = u128::from(cx.nodes.process().0);
        let random = cx.random();
        let owner = Owner(process << 64 | u128::from(random as u64));
        let mut claim = Claim::new(owner, waiter.params.mode, cx.nodes.count());
        // A split ends because all who met ask the same node first, and one node knows who is first.
        let is_fair = waiter.params.is_fair && !waiter.asks_all;
        let is_leader_first = is_leader_first || is_fair || waiter.split.is_some();
        let mut round = self.open_attempt(&waiter, is_leader_first, cx);
        if cx.nodes.has_majority(cx.now()) {
            let nodes = cx.nodes.count();
            let many = if is_leader_first {
                1
            } else if cx.nodes.are_busy(cx.out.settings.busy_from) {
                quorum::majority(nodes)
            } else {
                nodes
            };
            round.ask(many, &mut claim, cx);
        }
        if waiter.params.is_fair {
            waiter
                .standing
                .queue_at(round.fanout.order.first().copied(), cx);
        }
        self.front = Front::Acquiring(Box::new(Attempt {
            waiter,
            claim,
            round,
        }));
    }

    /// The round of an attempt. No node has been asked.
    fn open_attempt(&self, waiter: &Waiter, is_leader_first: bool, cx: &mut Cx<'_>) -> Round {
        let now = cx.now();
        let timeout = waiter.params.round_timeout();
        let own_end = if waiter.params.wait.is_zero() && now < waiter.wait_until {
            // It has been with readers whose round might have been its own: see `Key::on_ask`.
            waiter.wait_until
        } else {
            now.after(timeout)
        };
        let closes_at = waiter.split.map_or(own_end, |split| split.until);
        let began = waiter.split.map_or(now, |split| split.since);
        let (leftovers, is_minority) = self.leftovers(began, cx);
        let proposal = Token(cx.wall_micros().min(Token::LARGEST.0 / 2));
        let is_fair = waiter.params.is_fair;
        let is_single = is_fair || cx.out.settings.mixed_fleet;
        let (length, spare) = match (is_single, self.queue.is_empty()) {
            (true, _) => (1, Duration::ZERO),
            (false, true) => (SMALL_BLOCK, Duration::ZERO),
            (false, false) => (BLOCK, TURN),
        };
        let question = Question {
            kind: Kind::Acquire {
                waits: waiter.goes_on_waiting(now),
            },
            params: Arc::clone(&waiter.params),
            spare,
            block: Some(BlockRequest { proposal, length }),
            // Those that refused had nothing but that. The others are needed, however slow they are.
            is_repeated: is_minority && !leftovers.is_empty(),
            in_order: is_fair.then_some((waiter.section, waiter.wait_until)),
        };
        let majority_delay = cx.nodes.majority_delay().min(timeout / 4);
        let hedge_delay = cx.nodes.hedge_delay().min(timeout / 4);
        let silent_for = match (is_fair, is_leader_first) {
            (true, _) => timeout / 2,
            (false, true) => hedge_delay,
            (false, false) => majority_delay,
        };
        let useful_first = !is_fair && !is_leader_first;
        let mut order = cx.nodes.order(cx.name, silent_for, useful_first, now);
        let mut patience = hedge_delay;
        if let Some(split) = waiter.split {
            order.sort_by_key(|node| leftovers.contains(node));
            // Silent nodes may be slow and needed, or silent for good. They are waited for as long as it
            // has been tried already: who waits for them to the end is in the way of all others.
            patience = patience.max(now.since(split.since));
        }
        let fanout = Fanout {
            majority_delay,
            ends_split: waiter.split.is_some(),
            ..Fanout::new(order, patience)
        };
        Round::open(question, fanout, closes_at, cx)
    }

    pub(super) fn advance_attempt(&mut self, cx: &mut Cx<'_>) -> bool {
        let Front::Acquiring(attempt) = &mut self.front else {
            return false;
        };
        let won = match attempt.round.progress(cx.now()) {
            Progress::Open => return false,
            Progress::AskMore => {
                let all = cx.nodes.count();
                attempt.round.ask(all, &mut attempt.claim, cx);
                return true;
            }
            Progress::Disagrees => {
                attempt.ask_for_higher(cx);
                return true;
            }
            Progress::Won(block) => Ok(block),
            Progress::Failed(failure) => Err(failure),
        };
        if let Front::Acquiring(attempt) = self.take_front() {
            match won {
                Ok(block) => self.on_won(*attempt, block, cx),
                Err(failure) => self.on_failed(*attempt, failure, cx),
            }
        }
        true
    }

    fn on_won(&mut self, mut attempt: Attempt, block: Option<Block>, cx: &mut Cx<'_>) {
        if let Some(contention) = &mut self.contention {
            contention.on_own_turn();
        }
        if !attempt.round.is_granted_by(attempt.waiter.standing.leader) {
            // It may have a place for the waiter all the same.
            attempt.waiter.standing.leave(cx);
        }
        let mut held = Held::begin(attempt.claim, &attempt.round, block, cx);
        attempt.waiter.lost_attempts += 1;
        held.start(attempt.waiter, cx);
        held.shore_up(cx);
        self.front = Front::Held(held);
    }

    /// Releases everything before the next attempt, which carries a new owner.
    fn on_failed(&mut self, attempt: Attempt, failure: Failure, cx: &mut Cx<'_>) {
        let Attempt {
            mut waiter,
            claim,
            round,
        } = attempt;
        let (now, holder) = (cx.now(), round.holder().flatten());
        // Who is granted the key has no place any more, and others would come first once it is released.
        let is_first = waiter.params.is_fair && round.is_granted_by(waiter.standing.leader);
        if is_first && waiter.goes_on_waiting(now) {
            waiter.standing.place(round.question.ticket(now), cx);
        }
        self.releases.begin(&claim, Reports::default(), cx);
        waiter.lost_attempts += 1;
        waiter.standing.on_refusal(round.ahead, holder, now);
        // One node's word is enough as long as it names the owner that is known to hold the lock. Not
        // for ever: a node that cannot delete names that owner until the key expires. Nor if nobody
        // deletes it: the other nodes have been waited for.
        waiter.asks_all = if round.lost_at_leader().is_some() {
            let asks_all = round.holder() != self.contention().holder
                || self.is_left_to_expire(cx)
                || waiter.lost_attempts.is_multiple_of(ASKS_ALL_EVERY);
            match waiter.params.is_fair {
                true => waiter.standing.doubts_leader(now),
                false => asks_all,
            }
        } else {
            self.contention().on_refusal(
                &round,
                failure == Failure::Held,
                waiter.split.is_some(),
                now,
            );
            failure != Failure::Held && !waiter.params.is_fair
        };
        waiter.met_readers = round.holder() == Some(Some(Owner::READERS));
        let split = waiter.split.take();
        let cause = match failure {
            Failure::Held | Failure::Split => Cause::Contended {
                retry_after: round.retry_after(),
            },
            // The last of several attempts, which had less than its time.
            Failure::Outage(Cause::NoQuorum) if split.is_some() => {
                Cause::Contended { retry_after: None }
            }
            Failure::Outage(cause) => cause,
        };
        // The last holder's release may be on its way to the other nodes, and others come first if the node
        // that keeps the order is not asked again at once.
        let is_split = failure == Failure::Split || is_first && failure == Failure::Held;
        let closes_at = round.closes_at;
        self.contention().last_refusal = Refusal {
            cause,
            verdicts: round.verdicts(),
            key: None,
            attempts: 0,
        };
        if is_split && cx.now() < closes_at {
            let split = split.unwrap_or(Split {
                since: now,
                until: closes_at,
                tries: 0,
            });
            self.end_split(waiter, split, cx);
        } else {
            self.back_off_or_refuse(waiter, cx);
        }
    }

    pub(super) fn back_off_or_refuse(&mut self, waiter: Waiter, cx: &mut Cx<'_>) {
        // It was their attempt as well: see `Key::on_ask`. Another one, of all nodes, would be in the way
        // of the process that has won this one.
        while let Some(joined) = self.queue.pop_impatient() {
            let refusal = self.last_refusal().clone();
            cx.answer(joined.section, Answer::Refused(refusal));
        }
        if waiter.goes_on_waiting(cx.now()) {
            return self.back_off(waiter, cx);
        }
        self.front = Front::Free;
        let refusal = Refusal {
            attempts: waiter.lost_attempts,
            ..self.last_refusal().clone()
        };
        cx.answer(waiter.section, Answer::Refused(refusal));
    }

    /// The front waiter goes away.
    pub(super) fn cancel_front(&mut self, cx: &mut Cx<'_>) {
        let mut waiter = match self.take_front() {
            Front::Acquiring(attempt) => {
                self.releases.begin(&attempt.claim, Reports::default(), cx);
                attempt.waiter
            }
            Front::BackingOff(backoff) => backoff.waiter,
            front => return self.front = front,
        };
        waiter.standing.leave(cx);
    }
}
