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

use std::{sync::Arc, time::Duration};

use super::{Ask, Cx, Front, Key, Waiter, attempt::Opening, fairness};
use crate::{
    action::{Cause, Refusal, Verdict},
    message::{NodeId, Reply, Request},
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
    refusal: Refusal,
    /// The lock is left to other processes.
    stands_back: bool,
    /// When to ask for a lock that is free, and that others may have first.
    ask_at: Option<Instant>,
    /// The attempt was refused by none that holds the lock: see `attempt`.
    split: Option<Split>,
    /// A read of the key is under way on this node, and whether to read it once more afterwards.
    reading: Option<NodeId>,
    reads_again: bool,
}

/// Attempts to find one winner among processes that have asked at the same instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    /// So long they go on.
    pub(super) until: Instant,
    tries: u32,
}

impl Split {
    pub(super) const fn new(until: Instant) -> Self {
        Self { until, tries: 0 }
    }
}

impl Backoff {
    const fn new(waiter: Waiter, refusal: Refusal, until: Instant) -> Self {
        Self {
            waiter,
            until,
            refusal,
            stands_back: false,
            ask_at: None,
            split: None,
            reading: None,
            reads_again: false,
        }
    }

    /// When to make the next attempt.
    pub(super) fn next_due(&self) -> Instant {
        self.ask_at.unwrap_or(self.until).min(self.until)
    }

    pub(super) const fn lacks_quorum(&self) -> bool {
        self.refusal.lacks_quorum()
    }

    pub(super) fn stands_back_until(&self) -> Option<Instant> {
        self.stands_back.then_some(self.until)
    }

    /// While another owner has the lock, one node is asked first: a refusal costs one request. The
    /// attempt that is known to be the last asks all.
    fn opening(&self, now: Instant) -> Opening {
        if let Some(split) = self.split {
            return Opening::After(split);
        }
        let asks_all = self.ask_at.is_none_or(|at| at > now) && self.waiter.asks_all;
        let is_last = now >= self.waiter.wait_until;
        if is_last || asks_all || !self.refusal.is_contended() {
            Opening::Broadcast
        } else {
            Opening::LeaderFirst
        }
    }
}

impl Key {
    pub(super) fn back_off(&mut self, waiter: Waiter, refusal: Refusal, cx: &mut Cx<'_>) {
        let random = (cx.out.env.random)();
        let node = self.watch_node(&refusal, cx);
        let pause = backoff::pause(waiter.lost_attempts, &refusal, node.is_some(), random);
        // The last attempt is made when the caller stops waiting, not given up before.
        let until = cx.now().after(pause).min(waiter.wait_until);
        self.front = Front::BackingOff(Backoff::new(waiter, refusal, until));
        if let Some(node) = node {
            self.read(node, cx);
        }
    }

    /// The process has had its share of turns: leaves the lock to others for a while.
    pub(super) fn stand_back(&mut self, waiter: Waiter, until: Instant, cx: &mut Cx<'_>) {
        let until = until.min(waiter.wait_until);
        let cause = Cause::Contended { retry_after: None };
        let mut backoff = Backoff::new(waiter, Refusal::without_verdicts(cause), until);
        backoff.stands_back = true;
        self.front = Front::BackingOff(backoff);
        let leader = cx
            .nodes
            .in_order(&self.name)
            .find(|&node| cx.nodes.is_up(node));
        if let Some(leader) = leader.filter(|&leader| cx.nodes.tells_changes(leader)) {
            self.read(leader, cx);
        }
    }

    /// Asks again in a moment, leader-first.
    pub(super) fn end_split(
        &mut self,
        waiter: Waiter,
        refusal: Refusal,
        mut split: Split,
        cx: &mut Cx<'_>,
    ) {
        let random = (cx.out.env.random)();
        // The first time at once: the release is on its way before it.
        let pause = if split.tries == 0 {
            Duration::ZERO
        } else {
            jitter(SPLIT_PAUSE * (1 << split.tries.min(6)), random)
        };
        split.tries += 1;
        let mut backoff = Backoff::new(waiter, refusal, cx.now().after(pause).min(split.until));
        backoff.split = Some(split);
        self.front = Front::BackingOff(backoff);
    }

    pub(super) fn advance_backoff(&mut self, cx: &mut Cx<'_>) -> bool {
        let now = cx.now();
        let Front::BackingOff(backoff) = &self.front else {
            return false;
        };
        if now < backoff.next_due() {
            return false;
        }
        if backoff.split.is_some_and(|split| split.until <= now) {
            self.give_up_split(cx);
            return true;
        }
        let opening = backoff.opening(now);
        self.go_on(opening, cx);
        true
    }

    /// No process has won in time. The waiter goes on like any other.
    fn give_up_split(&mut self, cx: &mut Cx<'_>) {
        match self.take_front() {
            Front::BackingOff(Backoff {
                waiter, refusal, ..
            }) => self.back_off_or_refuse(waiter, refusal, cx),
            other => self.front = other,
        }
    }

    /// What kept the front waiter from the lock may be over.
    pub(super) fn retry_now(&mut self, cx: &mut Cx<'_>) {
        match &mut self.front {
            Front::BackingOff(backoff) if !backoff.stands_back => {
                self.go_on(Opening::Broadcast, cx);
            }
            Front::Acquiring(attempt) => attempt.asks_again = true,
            _ => {}
        }
    }

    fn go_on(&mut self, opening: Opening, cx: &mut Cx<'_>) {
        match self.take_front() {
            Front::BackingOff(backoff) => self.attempt(backoff.waiter, opening, cx),
            other => self.front = other,
        }
    }

    /// A node that has the holder's key and tells when that changes.
    fn watch_node(&self, refusal: &Refusal, cx: &Cx<'_>) -> Option<NodeId> {
        if !refusal.is_contended() {
            return None;
        }
        cx.nodes.in_order(&self.name).find(|&node| {
            let verdict = refusal.verdicts.get(node.0);
            matches!(verdict, Some(Verdict::HeldByAnother { .. })) && cx.nodes.tells_changes(node)
        })
    }

    /// Reads the key of another owner: is it free?
    pub(super) fn read(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        let Front::BackingOff(backoff) = &mut self.front else {
            return;
        };
        if !backoff.refusal.is_contended() || backoff.split.is_some() {
            return;
        }
        if backoff.reading.is_some() {
            backoff.reads_again = true;
            return;
        }
        let body = Request::Watch {
            key: Arc::clone(&self.name),
            owner: None,
        };
        // Not connected: the next attempt comes anyway.
        if cx
            .nodes
            .tell(node, (self.id, Ask::Await), body, &mut cx.out)
        {
            backoff.reading = Some(node);
        }
    }

    pub(super) fn on_awaited(&mut self, node: NodeId, reply: &Reply, cx: &mut Cx<'_>) {
        let Front::BackingOff(backoff) = &mut self.front else {
            return;
        };
        if backoff.reading == Some(node) {
            backoff.reading = None;
        }
        if std::mem::take(&mut backoff.reads_again) {
            return self.read(node, cx);
        }
        match reply {
            Reply::Taken { owner } => {
                let stood_back = std::mem::take(&mut backoff.stands_back);
                backoff.ask_at = None;
                self.order
                    .on_turn_of(owner.map(crate::message::Owner::process));
                if stood_back {
                    self.go_on(Opening::LeaderFirst, cx);
                }
            }
            Reply::Free if !backoff.stands_back && backoff.ask_at.is_none() => {
                let round = cx.nodes.usual_delay(node, cx.now());
                let pause = self.order.defer_by(round, (cx.out.env.random)());
                backoff.ask_at = Some(cx.now().after(pause));
            }
            _ => {}
        }
    }

    pub(super) fn on_await_failed(&mut self, node: NodeId) {
        if let Front::BackingOff(backoff) = &mut self.front
            && backoff.reading == Some(node)
        {
            backoff.reading = None;
        }
    }
}

/// How long a turn's end leaves the lock to others.
pub(super) fn stand_back_for(round: Duration, cx: &mut Cx<'_>) -> Duration {
    if cx.out.settings.mixed_fleet {
        fairness::mixed_cooldown((cx.out.env.random)())
    } else {
        fairness::cooldown(round)
    }
}
