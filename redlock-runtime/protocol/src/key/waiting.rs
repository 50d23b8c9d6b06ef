//! The front waiter's pause between two attempts.
//!
//! After a refusal it asks one node that has the holder's key to tell when that changes. All
//! processes choose the same node if they can, and when it tells them that the key is gone they ask
//! it before the others. The notification may be lost, and the node may know less than the others:
//! the waiter asks for votes anyway after a while.
//!
//! Processes that have waited for more turns of others go first (`fairness`). A process that has had
//! its share stands back: that the lock is free is no reason to ask for it, until another process
//! has had it or none has come for it in a while.

use std::time::Duration;

use super::{Cx, Front, Key, Waiter, claim::Reads};
use crate::{
    action::{Refusal, Verdict},
    message::{Mode, NodeId, Owner, Reply},
    rules::backoff::{self, jitter},
    time::Instant,
};

/// The first pause between two attempts to end a split, in which the keys of the others' attempts go
/// away; doubled with every further one, in case it is none.
const SPLIT_PAUSE: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(super) struct Backoff {
    pub(super) waiter: Waiter,
    /// When to ask in any case.
    until: Instant,
    /// When to ask for a lock that is free, and that others may have first.
    ask_at: Option<Instant>,
    /// Of the key, to learn whether it is free.
    reads: Reads,
}

/// Attempts to find one winner among processes that have asked at the same instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    pub(super) since: Instant,
    /// So long they go on.
    pub(super) until: Instant,
    pub(super) tries: u32,
}

impl Backoff {
    fn new(waiter: Waiter, until: Instant) -> Self {
        Self {
            waiter,
            until,
            ask_at: None,
            reads: Reads::default(),
        }
    }

    /// When to make the next attempt.
    pub(super) fn next_due(&self) -> Instant {
        self.ask_at.unwrap_or(self.until).min(self.until)
    }

    /// While another owner has the lock, one node is asked first: a refusal costs one request. The
    /// attempt that is known to be the last asks all.
    fn asks_leader_first(&self, refusal: &Refusal, now: Instant) -> bool {
        let is_last = now >= self.waiter.wait_until;
        let is_told = self.ask_at.is_some_and(|at| at <= now);
        let asks_one = is_told || !self.waiter.asks_all;
        asks_one && !is_last && refusal.is_contended()
    }
}

impl Key {
    pub(super) fn back_off(&mut self, waiter: Waiter, cx: &mut Cx<'_>) {
        let random = cx.random();
        let node = self.watch_node(cx);
        let refusal = self.last_refusal();
        let can_ask = cx.nodes.has_majority(cx.now());
        let longest = backoff::longest(refusal, waiter.params.round_timeout(), can_ask);
        let is_notified = node.is_some();
        let pause = match backoff::until_expiry(refusal) {
            // Where no node would tell, an operator who deletes it would not be noticed.
            Some(expiry) if is_notified && !waiter.asks_all && self.is_left_to_expire(cx) => expiry,
            _ => backoff::pause(waiter.lost_attempts, refusal, longest, is_notified, random),
        };
        // The last attempt is made when the caller stops waiting, not given up before.
        let until = cx.now().after(pause).min(waiter.wait_until);
        self.front = Front::BackingOff(Backoff::new(waiter, until));
        if let Some(node) = node {
            self.read(node, cx);
        }
    }

    /// What holds the lock is this process's own and has been released: a key that is to be kept for a
    /// while, or one that came too late to be deleted. No client deletes it, so asking for it is of no use.
    pub(super) fn is_left_to_expire(&self, cx: &Cx<'_>) -> bool {
        let owner = self.contention.as_ref().and_then(|it| it.holder.flatten());
        owner.is_some_and(|owner| {
            let is_stuck = || self.stuck.iter().any(|stuck| stuck.claim.owner == owner);
            owner.process() == cx.nodes.process() && !is_stuck() && !self.releases.are_owed(owner)
        })
    }

    /// The process has had its share of turns: leaves the lock to others for a while.
    pub(super) fn stand_back(&mut self, waiter: Waiter, until: Instant, cx: &mut Cx<'_>) {
        let until = until.min(waiter.wait_until);
        self.contention().last_refusal = Refusal::CONTENDED;
        self.front = Front::BackingOff(Backoff::new(waiter, until));
        let mut order = cx.nodes.in_order(cx.name);
        let leader = order.find(|&node| cx.nodes.is_up(node));
        if let Some(leader) = leader.filter(|&leader| cx.nodes.tells_changes(leader)) {
            self.read(leader, cx);
        }
    }

    /// Asks again in a moment, leader-first.
    pub(super) fn end_split(&mut self, mut waiter: Waiter, mut split: Split, cx: &mut Cx<'_>) {
        // The first time at once: the release is on its way before it.
        let pause = if split.tries == 0 {
            Duration::ZERO
        } else {
            jitter(SPLIT_PAUSE * (1 << split.tries.min(6)), cx.random())
        };
        split.tries += 1;
        waiter.split = Some(split);
        let until = cx.now().after(pause).min(split.until);
        self.front = Front::BackingOff(Backoff::new(waiter, until));
    }

    pub(super) fn advance_backoff(&mut self, cx: &mut Cx<'_>) -> bool {
        let now = cx.now();
        let Front::BackingOff(backoff) = &mut self.front else {
            return false;
        };
        if now < backoff.next_due() {
            return false;
        }
        let split = &mut backoff.waiter.split;
        if split.take_if(|split| split.until <= now).is_none() {
            let refusal = &self.contention.get_or_insert_default().last_refusal;
            let is_leader_first = backoff.asks_leader_first(refusal, now);
            self.go_on(is_leader_first, cx);
        } else if let Front::BackingOff(backoff) = self.take_front() {
            // No process has won in time. The waiter goes on like any other.
            self.back_off_or_refuse(backoff.waiter, cx);
        }
        true
    }

    /// What kept the front waiter from the lock may be over.
    pub(super) fn retry_now(&mut self, cx: &mut Cx<'_>) {
        if self.stand_back_until().is_none() {
            self.go_on(false, cx);
        }
    }

    fn go_on(&mut self, is_leader_first: bool, cx: &mut Cx<'_>) {
        match self.take_front() {
            Front::BackingOff(backoff) => self.attempt(backoff.waiter, is_leader_first, cx),
            other => self.front = other,
        }
    }

    /// A node that has the holder's key and tells when that changes.
    fn watch_node(&self, cx: &Cx<'_>) -> Option<NodeId> {
        let refusal = self.last_refusal();
        let mut order = cx.nodes.in_order(cx.name);
        order.find(|&node| {
            let verdict = refusal.verdicts.get(node.0);
            matches!(verdict, Some(Verdict::HeldByAnother { .. }))
                && refusal.is_contended()
                && cx.nodes.tells_changes(node)
        })
    }

    /// Reads the key of another owner: is it free?
    pub(super) fn read(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        let Front::BackingOff(backoff) = &mut self.front else {
            return;
        };
        let refusal = &self.contention.get_or_insert_default().last_refusal;
        let is_wanted = refusal.is_contended() && backoff.waiter.split.is_none();
        // If it is not connected, the next attempt comes anyway.
        if is_wanted {
            backoff.reads.read(node, None, cx);
        }
    }

    pub(super) fn on_awaited(&mut self, node: NodeId, reply: Option<Reply>, cx: &mut Cx<'_>) {
        let Front::BackingOff(backoff) = &mut self.front else {
            return;
        };
        if backoff.reads.end() && reply.is_some() {
            return self.read(node, cx);
        }
        let contention = self.contention.get_or_insert_default();
        let waiter = &mut backoff.waiter;
        let is_of_readers = matches!(
            reply,
            Some(Reply::Taken {
                owner: Some(Owner::READERS)
            })
        );
        if is_of_readers && waiter.params.mode == Mode::Shared {
            // It can join them, unless it has tried: then it waits for the process that is to go first.
            if !waiter.met_readers && contention.stand_back_until.is_none() {
                waiter.met_readers = true;
                backoff.ask_at = Some(cx.now());
            }
            return;
        }
        match reply {
            Some(Reply::Taken { owner }) => {
                waiter.met_readers = false;
                backoff.ask_at = None;
                backoff.waiter.standing.on_turn_of(owner, cx.now());
                contention.order.on_turn_of(owner.map(Owner::process));
                // The process has left the lock to others for long enough, and waits like them.
                if contention.stand_back_until.take().is_some() {
                    self.go_on(true, cx);
                }
            }
            Some(Reply::Free)
                if contention.stand_back_until.is_none() && backoff.ask_at.is_none() =>
            {
                let round = cx.nodes.round_trip(node).unwrap_or_default();
                let waiter = &backoff.waiter;
                let pause = match waiter.params.is_fair {
                    true => waiter.standing.defer_by(round),
                    false => {
                        let order = &contention.order;
                        order.defer_by(round, waiter.met_readers, cx.random())
                    }
                };
                backoff.ask_at = Some(cx.now().after(pause));
            }
            _ => {}
        }
    }
}
