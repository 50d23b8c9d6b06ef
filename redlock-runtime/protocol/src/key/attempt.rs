//! One attempt of the front waiter to get the lock.
//!
//! The first attempt asks all nodes at once: the fastest majority decides. While the nodes are busy
//! (`Nodes::are_busy`) it asks only a majority, and the others as soon as one of that majority fails or is late,
//! or they do not agree. That majority is the same for all processes, and different for each key; a lock that
//! is held for a while is put on the other nodes, too. Where others wait, an attempt is *leader-first*: it asks
//! the node that keeps the queue, the same for all processes, and the others once that one has granted. So of
//! many processes that learn at once that the lock is free, one disturbs none of the others.
//!
//! A refusal is not always contention. If several processes ask at the same instant, each may get
//! less than a majority. Then no owner holds the lock, and all of them ask again in the order of the queue, even
//! those that do not wait otherwise. An owner that is seen on the leader alone may be a dead attempt's, so after
//! a while all nodes are asked again: of any number of them exactly one wins.

use std::{sync::Arc, time::Duration};

use super::{
    Front, Key,
    claim::Claim,
    cx::Cx,
    question::{Fanout, Kind, Question},
    release::Reports,
    round::{Failure, Progress, Round},
    turn::Held,
    waiting::{Place, Waiter},
};
use crate::{
    action::{Answer, Cause, Refusal, Verdict},
    message::{BlockRequest, Mode, NodeId, Owner, Ticket},
    rules::{
        backoff::{LONGEST_POLL, jitter},
        proposal::{BLOCK, SMALL_BLOCK},
        quorum,
        token::{Block, Token},
    },
    time::Instant,
};

/// What a process needs to ask for a lock that it has been told is free, beside the round trips.
const SHORTEST_GRACE: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) waiter: Waiter,
    pub(super) claim: Claim,
    pub(super) round: Round,
    /// So many rounds have been granted different numbers.
    disagreements: u32,
    /// Until when others are let go first.
    pause: Option<Instant>,
}

/// The round for a slot waits for silent nodes at most this number of times as long as that for a free lock.
const MOST_LOST_SLOTS: u32 = 8;

impl Attempt {
    /// When to look at it again at the latest.
    pub(super) fn next_due(&self, now: Instant) -> Instant {
        let until = self.paused_until().filter(|&until| until > now);
        until.unwrap_or_else(|| self.round.next_due(now))
    }

    /// No later than the round ends, whose time may have been cut since the pause began.
    fn paused_until(&self) -> Option<Instant> {
        self.pause.map(|until| until.min(self.round.closes_at))
    }

    /// The nodes have granted different numbers. Whether others are to go first: of a crowd that asks at once, each new
    /// proposal overtakes those that are on their way.
    // Without turns, a client asked up to 18 times where sixty readers wanted numbers at once.
    fn pauses(&mut self, cx: &mut Cx<'_>) -> bool {
        let now = cx.now();
        if self.pause.is_none() {
            // None the first time: it may be that counters lie apart.
            let longest = now.since(self.round.started) * self.disagreements;
            self.disagreements += 1;
            self.pause = Some(now.after(jitter(longest, cx.random())));
        }
        self.paused_until().is_some_and(|until| now < until)
    }

    /// It can no longer be won, and the leader has told of a change since it refused.
    fn is_outdated(&self, now: Instant) -> bool {
        let Place { has_changed, .. } = self.waiter.place;
        has_changed && self.round.is_lost() && self.waiter.goes_on_waiting(now)
    }

    /// The question that begins has a node timeout of its own: three, one after the other, may not fit in one. The
    /// lease counts from `started`, and the caller gets its answer no later.
    fn renew_time(&mut self, started: Instant, cx: &Cx<'_>) {
        let params = &self.waiter.params;
        if !params.wait.is_zero() {
            let until = cx.now().after(params.round_timeout());
            let is_of_use = started.after(params.lease.saturating_sub(params.min_validity));
            let until = until.min(is_of_use).min(self.waiter.last_end());
            self.round.closes_at = until.max(self.round.closes_at);
        }
    }

    /// The nodes have granted different numbers: asks those that may have the key for a block above
    /// them. That is a refresh of a turn that has not begun.
    fn ask_for_higher(&mut self, cx: &mut Cx<'_>) {
        // Leader, all nodes and a first number are three questions. Further numbers share the time of the third.
        if self.disagreements <= 1 {
            self.renew_time(cx.now(), cx);
        }
        let mut question = self.round.question.clone();
        question.kind = Kind::Extend;
        // Nodes that were too slow for the last number are waited for this time.
        question.is_repeated = true;
        self.pause = None;
        // Not the wall clock again: nodes grant no number that is far ahead of theirs, so one that is
        // wrong would never make them agree.
        question.block = self.claim.after_disagreement(&self.round, cx);
        self.round = Round::extend(question, &mut self.claim, self.round.closes_at, cx);
    }
}

impl Waiter {
    /// Silent nodes may be slow and needed, or silent for good. In a split, who waits for them to the end is in the way
    /// of all others, and two that wait for equally long are in each other's.
    fn patience_with_silent(&self, hedge_delay: Duration, cx: &mut Cx<'_>) -> Duration {
        let tried_for = match self.split {
            None => hedge_delay * self.lost_slots.min(MOST_LOST_SLOTS),
            Some(since) => cx.now().since(since),
        };
        match tried_for {
            Duration::ZERO => hedge_delay,
            tried_for => hedge_delay.max(jitter(tried_for, cx.random())),
        }
    }
}

impl Key {
    /// Asks for the lock under a new owner. The lease counts from now. If no majority can vote,
    /// nothing is sent that could not be of use.
    pub(super) fn attempt(&mut self, mut waiter: Waiter, cx: &mut Cx<'_>) {
        if self.line().is_some() {
            return self.attempt_slot(waiter, cx);
        }
        let now = cx.now();
        // Who waits goes on like any other then: an order that only a slow node knows would keep a lock from it.
        waiter
            .split
            .take_if(|since| since.after(Ticket::LASTS) <= now);
        let process = u128::from(cx.nodes.process().0);
        let random = cx.random();
        // A new owner for each attempt: a late grant of an earlier one is released under its own name, and cannot be
        // taken for this one's (promise 4).
        let owner = Owner(process << 64 | u128::from(random as u64));
        let mut claim = Claim::new(owner, waiter.params.mode, cx.nodes.count());
        let is_leader_first = self.asks_leader_first(&waiter, cx.now());
        let has_place = waiter.place.is_taken;
        // Opened before a node is asked: its lease counts from here.
        let mut round = self.open_attempt(&mut waiter, is_leader_first, cx);
        claim.on_round(&round);
        // Else each request would be one more to release.
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
        } else {
            // No node has been told, so there is no new place to give up.
            waiter.place.is_taken = has_place;
        }
        self.front = Front::Acquiring(Box::new(Attempt {
            waiter,
            claim,
            round,
            disagreements: 0,
            pause: None,
        }));
    }

    /// While others wait one node knows whose turn it is. The attempt that is known to be the last asks all.
    fn asks_leader_first(&self, waiter: &Waiter, now: Instant) -> bool {
        let waits = waiter.goes_on_waiting(now);
        let has_order = waiter.params.permits == 0 && !waiter.asks_all;
        has_order
            && (waiter.params.is_fair || waiter.split.is_some() || waits && self.is_contested())
    }

    /// What the leader is told. Who does not wait takes no place, and is in no order unless the lock is fair. But
    /// readers do not join others while somebody waits to have the lock alone.
    pub(super) fn ticket(
        &mut self,
        waiter: &mut Waiter,
        is_leader_first: bool,
        cx: &Cx<'_>,
    ) -> Option<Ticket> {
        let now = cx.now();
        let leader = waiter.place.leader?;
        let is_fair = waiter.params.is_fair;
        let is_ordered = is_leader_first || is_fair;
        let is_shared = waiter.params.mode == Mode::Shared;
        let lasts = match waiter.split {
            _ if waiter.goes_on_waiting(now) => Ticket::LASTS,
            Some(_) => waiter.wait_until.since(now),
            None => Duration::ZERO,
        };
        if !is_ordered && !is_shared && self.line().is_none() && lasts.is_zero() {
            return None;
        }
        let came = match &mut self.contention {
            Some(contention) if !is_fair => contention.arrive(waiter.since),
            _ => waiter.since,
        };
        let round_trip = cx.nodes.usual_round_trip(leader);
        let hears_after = match cx.nodes.tells_changes(leader) {
            true => SHORTEST_GRACE,
            false => LONGEST_POLL,
        };
        waiter.place.is_taken |= !lasts.is_zero();
        Some(Ticket {
            came: came.as_nanos(),
            waited: now.since(came),
            lasts,
            grace: 2 * round_trip + hears_after,
            is_ordered,
        })
    }

    /// The round of an attempt. No node has been asked.
    fn open_attempt(
        &mut self,
        waiter: &mut Waiter,
        is_leader_first: bool,
        cx: &mut Cx<'_>,
    ) -> Round {
        let now = cx.now();
        let timeout = waiter.params.round_timeout();
        // A question may have come before it at the very end.
        let closes_at = now.after(timeout).min(waiter.last_end());
        // The clock, so that processes that have not met propose rising numbers. Half of them are left if it is
        // wrong.
        let proposal = Token(cx.wall_micros().min(Token::LARGEST.0 / 2));
        let is_fair = waiter.params.is_fair;
        let is_single = is_fair || cx.out.settings.mixed_fleet;
        let (length, spare) = match (is_single, self.queue.is_empty()) {
            (true, _) => (1, Duration::ZERO),
            (false, true) => (SMALL_BLOCK, Duration::ZERO),
            (false, false) => (BLOCK, waiter.params.spare()),
        };
        // However slow the nodes were last, three quarters of the round are left for the others.
        let majority_delay = cx.nodes.majority_delay().min(timeout / 4);
        let hedge_delay = cx.nodes.hedge_delay().min(timeout / 4);
        let patience = waiter.patience_with_silent(hedge_delay, cx);
        // Promise 6 of the guarantees: a fair lock waits for its first node for half the node timeout.
        let silent_for = match (is_fair, is_leader_first) {
            (true, _) => timeout / 2,
            (false, true) => hedge_delay,
            (false, false) => majority_delay,
        };
        let leader = cx.nodes.leader(cx.name, |_| silent_for, now);
        waiter.follow(leader, cx);
        let ticket = match waiter.params.permits {
            0 => self.ticket(waiter, is_leader_first, cx),
            _ => None,
        };
        waiter.place.on_attempt();
        let question = Question {
            kind: Kind::Acquire,
            params: Arc::clone(&waiter.params),
            spare,
            block: Some(BlockRequest { proposal, length }),
            is_repeated: false,
            leader,
            ticket,
            note: None,
        };
        let order = cx
            .nodes
            .order(cx.name, silent_for, !is_leader_first && !is_fair, now);
        let fanout = Fanout {
            majority_delay,
            ..Fanout::new(order, patience)
        };
        Round::open(question, fanout, closes_at, cx)
    }

    pub(super) fn advance_attempt(&mut self, cx: &mut Cx<'_>) -> bool {
        let Front::Acquiring(attempt) = &mut self.front else {
            return false;
        };
        let won = match attempt.round.progress(cx.now()) {
            // Far nodes only tell how it was before.
            Progress::Open if attempt.is_outdated(cx.now()) => Err(Failure::Held),
            Progress::Open => return false,
            Progress::AskMore => {
                if attempt.round.is_granted_by(attempt.waiter.place.leader) {
                    attempt.renew_time(attempt.round.started, cx);
                }
                // All at once: to ask only as many as a majority lacks saved no more than runs differ by.
                let all = cx.nodes.count();
                attempt.round.ask(all, &mut attempt.claim, cx);
                return true;
            }
            Progress::Disagrees if attempt.pauses(cx) => return false,
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
        let place = &mut attempt.waiter.place;
        let is_led = attempt.round.is_granted_by(place.leader);
        // The leader did not see this grant, so the place would stand in the way of others.
        if !is_led {
            place.leave(cx);
        }
        if let Some(contention) = &mut self.contention {
            contention.on_own_turn(attempt.waiter.section.is_part());
        }
        let mut held = Held::begin(attempt.claim, &attempt.round, block, cx);
        attempt.waiter.lost_attempts += 1;
        if attempt.waiter.params.permits > 0 {
            self.front = Front::Held(held);
            return self.ask_line(attempt.waiter);
        }
        held.start(attempt.waiter, cx);
        self.front = Front::Held(held);
    }

    /// Releases everything before the next attempt, which carries a new owner.
    fn on_failed(&mut self, attempt: Attempt, failure: Failure, cx: &mut Cx<'_>) {
        let Attempt {
            mut waiter,
            claim,
            round,
            ..
        } = attempt;
        let now = cx.now();
        self.releases.begin(claim, Reports::default(), cx);
        waiter.lost_attempts += 1;
        // Asking all nodes disturbs those ahead: each time needs a new reason.
        waiter.asks_all = false;
        waiter.place.on_failed(&round);
        let cause = match failure {
            Failure::Held | Failure::Split => Cause::Contended {
                retry_after: round.retry_after(),
            },
            // The last of several attempts, which had less than its time.
            Failure::Outage(Cause::NoQuorum)
                if waiter.split.is_some() && !waiter.goes_on_waiting(now) =>
            {
                Cause::Contended { retry_after: None }
            }
            Failure::Outage(cause) => cause,
        };
        let refusal = Refusal::new(cause, round.verdicts());
        if waiter.params.permits > 0 {
            return self.give_back(waiter, refusal);
        }
        self.contention().last_refusal = Some(refusal);
        if let Failure::Outage(_) = failure {
            return self.back_off_or_refuse(waiter, cx);
        }
        waiter.place.on_refusal(&round, now);
        if failure == Failure::Split || waiter.goes_on_waiting(now) {
            self.contention().is_met(now);
            self.contention().arrive(waiter.since);
        }
        self.go_on_waiting(waiter, &round, failure, cx);
    }

    /// What follows a refusal.
    fn go_on_waiting(
        &mut self,
        mut waiter: Waiter,
        round: &Round,
        failure: Failure,
        cx: &mut Cx<'_>,
    ) {
        let now = cx.now();
        let waits = waiter.goes_on_waiting(now);
        if round.is_queued && (waits || waiter.split.is_some()) {
            return self.give_way(waiter, cx);
        }
        let is_leaders_word = round.lost_at_leader().is_some() && round.fanout.order.len() > 1;
        // The last holder's release may be on its way to the other nodes.
        let is_split = failure == Failure::Split || round.is_first();
        if is_split && now < round.closes_at {
            waiter.split.get_or_insert(now);
        }
        if waiter.split.is_some() {
            if is_leaders_word && !waits {
                // That owner is about to get the lock or has it, or is dead and in the way: then nothing has changed
                // after a while. Those ahead find out first.
                waiter.asks_all = waiter.place.looks > 1;
                let places = waiter.place.ahead.count.saturating_add(1);
                let hedge_delay = cx.nodes.hedge_delay();
                let hedge_delay = hedge_delay.min(waiter.params.round_timeout() / 4);
                let pause = match waiter.asks_all {
                    true => Duration::ZERO,
                    false => hedge_delay.saturating_mul(places),
                };
                return self.end_split(waiter, pause, cx);
            }
            if is_split {
                return self.end_split(waiter, Duration::ZERO, cx);
            }
            // Some owner has the lock. The next split begins anew, and with a question at once.
            waiter.split = None;
        }
        // One who does not wait has nobody ahead who would find out.
        let doubts = match waits {
            true => waiter.place.doubts_leader(now),
            false => waiter.place.ahead.count == 0 && now < waiter.wait_until,
        };
        if is_leaders_word && doubts {
            waiter.asks_all = true;
            return self.attempt(waiter, cx);
        }
        self.back_off_or_refuse(waiter, cx);
    }

    pub(super) fn back_off_or_refuse(&mut self, mut waiter: Waiter, cx: &mut Cx<'_>) {
        let now = cx.now();
        if waiter.split.is_some() && waiter.params.wait.is_zero() {
            self.name_outage(&waiter, cx);
        }
        // It was their attempt as well: see `Key::on_ask`. Another one, of all nodes, would be in the way
        // of the process that has won this one.
        while let Some(joined) = self.queue.pop_impatient() {
            // What the nodes replied to the one that asked for them.
            let refusal = self.last_refusal().clone();
            cx.answer(joined.section, Answer::Refused(refusal));
        }
        if waiter.goes_on_waiting(now) {
            return self.back_off(waiter, cx);
        }
        self.leave(std::mem::take(&mut waiter.place), cx);
        self.refuse(&waiter, cx);
    }

    /// Attempts without a majority meet each other's keys on the few nodes that reply. That is no contention if too
    /// many have been silent for the whole call.
    fn name_outage(&mut self, waiter: &Waiter, cx: &Cx<'_>) {
        let (now, timeout) = (cx.now(), waiter.params.round_timeout());
        let called = waiter.wait_until.before(timeout);
        let is_silent = |node: &NodeId| {
            cx.nodes.is_silent(*node, timeout / 8 * 7, now) && !cx.nodes.has_replied(*node, called)
        };
        let silent: Vec<NodeId> = cx.nodes.ids().filter(is_silent).collect();
        if quorum::out_of_reach(cx.nodes.count(), silent.len()) {
            let last = &mut self.contention().last_refusal;
            let refusal = last.get_or_insert(Refusal::CONTENDED);
            refusal.cause = Cause::NoQuorum;
            for node in silent {
                // The last attempt may have asked the leader alone.
                let verdict = refusal.verdicts.get_mut(node.0);
                if let Some(verdict) = verdict.filter(|verdict| verdict.is_open()) {
                    *verdict = Verdict::TimedOut;
                }
            }
        }
    }

    pub(super) fn refuse(&self, waiter: &Waiter, cx: &mut Cx<'_>) {
        let refusal = Refusal {
            attempts: waiter.lost_attempts,
            ..self.last_refusal().clone()
        };
        cx.answer(waiter.section, Answer::Refused(refusal));
    }

    /// The front waiter goes away, if there is one.
    pub(super) fn cancel_front(&mut self, cx: &mut Cx<'_>) -> Option<Waiter> {
        let mut waiter = match self.take_front() {
            Front::Acquiring(attempt) => {
                self.releases.begin(attempt.claim, Reports::default(), cx);
                attempt.waiter
            }
            Front::Standing(standing) => standing.waiter,
            Front::BackingOff(backoff) => backoff.waiter,
            front => {
                self.front = front;
                return None;
            }
        };
        self.leave(std::mem::take(&mut waiter.place), cx);
        Some(waiter)
    }

    /// The next waiter of this process comes to the front, if there is one, and keeps the place.
    pub(super) fn leave(&mut self, mut place: Place, cx: &mut Cx<'_>) {
        self.front = Front::Free;
        if self.queue.is_empty() {
            place.leave(cx);
        } else {
            self.keep_place(place);
        }
    }
}
