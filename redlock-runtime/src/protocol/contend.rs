//! Who has the lock next, when several want it.
//!
//! Within a process the leases of a key form a line, and the lock goes from one to the next in one
//! round: a majority of nodes says that it still has the key, makes it live long enough for the new
//! lease, and gives it a new fencing token. The owner stays the same, and a key that lives long
//! enough is not written, so that those in other processes who listen are not woken by every
//! hand-over, but by the release after the last one. Where sections are short, that round is for
//! several leases, and before their turn: see `ahead`.
//!
//! Between processes nobody can be handed anything, so whoever wins the vote is next. What makes
//! that fast and fair:
//! - One lease of each process contends, the head of its line.
//! - After a refusal it asks one node, which has the holder's key, to tell when that changes. All
//!   processes choose the same node if they can, and when it tells them that the key is gone they
//!   ask it before the others: one of them wins there, and then everywhere. So votes are split in
//!   a first attempt at the most. (Letting whoever has most votes keep them would settle that one a
//!   round sooner. It takes the holder's name in each refusal and a second question within an
//!   attempt, which is much for something that happens once.)
//! - Those go first that have waited for the most turns of others. Nobody knows who they are, but
//!   each process knows how many turns of others it sees between its own as a rule, and leaves a free
//!   lock alone for a moment if it has seen fewer. So turns go round.
//! - Word may be lost, and the node may know less than the others: the head asks for votes anyway
//!   every 64 ms, and more often at first where it can hear from no node.
//! - Refusals leave a note on the nodes that somebody waits, and grants tell of it. A process that
//!   is told so hands over to itself only so often, and then leaves the lock to the others until
//!   one of them has had it, or nobody has come for it in a while.

use std::{sync::Arc, time::Duration};

use super::{
    Lease, Opening, Phase, Protocol,
    acquire::Asks,
    action::{Cause, Refusal, Vote},
    fence::stripe,
    hold::Hold,
    line,
    message::{LeaseId, NodeId, Reply, Request},
    quorum,
    time::Instant,
    timer::Timer,
    validity::Terms,
    wire::Purpose,
};

/// Between two attempts.
#[derive(Debug)]
pub(super) struct Rest {
    pub(super) until: Instant,
    pub(super) refusal: Refusal,
    /// The lock is left to others: that it is free is no reason to ask for it, until one of them
    /// has had it.
    yields: bool,
    /// When to ask for a lock that is free, and that those may have first who have waited longer.
    ask_at: Option<Instant>,
}

impl Rest {
    /// After a refusal.
    pub(super) const fn after(refusal: Refusal, until: Instant) -> Self {
        Self {
            until,
            refusal,
            yields: false,
            ask_at: None,
        }
    }

    /// When to make the next attempt.
    pub(super) fn due(&self) -> Instant {
        self.ask_at.unwrap_or(self.until).min(self.until)
    }

    /// Who has left the lock to others asks like one who has just heard that it is free; but what is known
    /// to be the last attempt asks more than one node.
    pub(super) fn opening(&self, wait_until: Instant, now: Instant) -> Opening {
        let hears = self.ask_at.is_some_and(|at| at <= now);
        if (self.yields || hears) && now < wait_until {
            Opening::Leader
        } else {
            Opening::Many
        }
    }

    const fn listens(&self) -> bool {
        self.refusal.is_contended()
    }
}

impl Protocol {
    /// Ends a lease that is held, and lets the next one have the lock: the next in line at once,
    /// unless another process waits that should have it first. One whose key is to live for another
    /// time begins anew, because what is asked for one lease may come late, in the next.
    pub(super) fn pass_on(&mut self, id: LeaseId, lease: &Lease, hold: Hold, now: Instant) {
        let (claim, token) = (hold.claim, hold.token);
        // What becomes of this release is only known from what nodes are asked after it.
        let is_reported = self.releases.reports.by(claim.owner).is_some();
        if let Some(line) = self.lines.get_mut(&lease.key) {
            line.section = (!is_reported).then_some(now.since(hold.granted));
        }
        if let Some(line) = self.lines.get_mut(&lease.key)
            && (!hold.is_awaited || !line.turn.is_over(now))
            && let Some(next) = line.next()
            && self.leases[&next].terms.key_ttl() == lease.terms.key_ttl()
        {
            line.advance();
            line.turn.go_on();
            if let Some(mut claim) = self.take_up(next, claim, token, now) {
                // Its number is to be above those that were asked for ahead.
                claim.seen = claim.seen.max(self.forget_ahead(&lease.key));
                self.attempt(next, Opening::HandedOver(claim), now);
            }
            return;
        }
        if hold.is_awaited {
            self.yields.retain(|_, until| now < *until);
            let until = now.after(line::yield_for(hold.round));
            self.yields.insert(Arc::clone(&lease.key), until);
        }
        self.releases.release(&mut self.wire, claim, now);
        // Behind the release, so that it finds the key free: requests keep their order.
        self.step_out(id, &lease.key, lease.order);
    }

    /// The first attempt of a lease that has come to the head of its line.
    pub(super) fn step_up(&mut self, id: LeaseId, now: Instant) {
        let Some(lease) = self.leases.get_mut(&id) else {
            return;
        };
        let yields = self.yields.get(&lease.key).filter(|until| now < **until);
        let Some(&until) = yields.filter(|_| !lease.terms.wait.is_zero()) else {
            return self.attempt(id, Opening::Many, now);
        };
        let until = until.min(lease.wait_until);
        lease.phase = Phase::Resting(Rest {
            until,
            refusal: Refusal::without_votes(Cause::Contended { retry_after: None }),
            yields: true,
            ask_at: None,
        });
        self.wire.timers.wake_by(Timer::Lease(id), until);
        if let Some(lease) = self.leases.get(&id)
            && let Some(&leader) = self.asks(lease, &[], now).order.first()
            && self.admissions[leader.0].tells_changes()
        {
            self.read(leader, id, now);
        }
    }

    /// The nodes that can be asked, in the order in which to ask them: prompt ones first, and of
    /// these the ones that hold the key already. Beyond that it is the same for all who contend for
    /// the key.
    pub(super) fn asks(&self, lease: &Lease, holders: &[NodeId], now: Instant) -> Asks {
        let patience = self.patience(&lease.terms, now);
        let all = self.in_order(&lease.key);
        let mut order: Vec<NodeId> = all
            .filter(|&node| self.wire.fault(node, now).is_none())
            .collect();
        order.sort_by_cached_key(|&node| {
            let is_prompt = self.wire.is_prompt(node, patience, now);
            (!is_prompt, !holders.contains(&node))
        });
        Asks::new(order, patience)
    }

    /// How many nodes to ask at first. All of an idle set: the fastest majority of them decides, and
    /// one that is silent costs no time. Of a busy one a majority, because what the others need not
    /// do they can do for somebody else.
    pub(super) fn many(&self) -> usize {
        let nodes = self.wire.node_count();
        if self.wire.is_busy() {
            quorum::majority(nodes)
        } else {
            nodes
        }
    }

    /// All of the majority that is asked first may have the key.
    pub(super) fn holders_decide(&self, asks: &Asks, holders: &[NodeId]) -> bool {
        let majority = quorum::majority(self.wire.node_count());
        let mut first = asks.order.iter().take(majority);
        asks.order.len() >= majority && first.all(|node| holders.contains(node))
    }

    /// How long nodes may take that are asked before the others, who must still have most of the
    /// time that there is.
    fn patience(&self, terms: &Terms, now: Instant) -> Duration {
        self.wire.patience(now).min(terms.round_timeout() / 4)
    }

    /// A node that has the holder's key and tells when that changes.
    pub(super) fn listening_post(&self, key: &str, refusal: &Refusal) -> Option<NodeId> {
        if !refusal.is_contended() {
            return None;
        }
        self.in_order(key).find(|node| {
            let vote = refusal.votes.get(node.0);
            matches!(vote, Some(Vote::Held { .. })) && self.admissions[node.0].tells_changes()
        })
    }

    /// A node has told of a change to the key: is it free?
    pub(super) fn read(&mut self, node: NodeId, id: LeaseId, now: Instant) {
        let Some(lease) = self.leases.get(&id) else {
            return;
        };
        if matches!(&lease.phase, Phase::Resting(rest) if rest.listens()) {
            let body = Request::Watch {
                key: Arc::clone(&lease.key),
                owner: None,
            };
            // Not connected: the next attempt comes anyway.
            let _ = self.wire.ask(node, Purpose::Await { lease: id }, body, now);
        }
    }

    pub(super) fn on_word(&mut self, node: NodeId, id: LeaseId, reply: &Reply, now: Instant) {
        let Some(lease) = self.leases.get_mut(&id) else {
            return;
        };
        let Phase::Resting(rest) = &mut lease.phase else {
            return;
        };
        match reply {
            Reply::Taken { owner } => {
                rest.yields = false;
                rest.ask_at = None;
                if let Some(line) = self.lines.get_mut(&lease.key) {
                    line.patience.on_turn_of(*owner);
                }
            }
            Reply::Free if rest.listens() && !rest.yields && rest.ask_at.is_none() => {
                let round = self.wire.usual_delay(node, now);
                let line = self.lines.get(&lease.key);
                let pause = line.map_or(Duration::ZERO, |line| line.patience.pause(round));
                if pause.is_zero() {
                    return self.attempt(id, Opening::Leader, now);
                }
                let ask_at = now.after(pause);
                rest.ask_at = Some(ask_at);
                self.wire.timers.wake_by(Timer::Lease(id), ask_at);
            }
            _ => {}
        }
    }

    /// All nodes, in an order that is the same for everybody and different for each key, so that
    /// no node leads for all of them.
    fn in_order(&self, key: &str) -> impl Iterator<Item = NodeId> + use<> {
        let nodes = self.wire.node_count();
        let first = stripe(key) as usize % nodes;
        (first..first + nodes).map(move |node| NodeId(node % nodes))
    }
}
