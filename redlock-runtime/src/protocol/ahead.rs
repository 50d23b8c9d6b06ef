//! Leases that are asked for before their turn.
//!
//! A lock that goes from one lease of a process to the next needs a majority's word for each of them.
//! Where sections are short, it is asked for while leases before them still hold the lock, for several
//! at once: a majority sees to it that the key lives for long enough, and gives each a fencing token,
//! in the order of the line. When its turn comes, such a lease has been granted, and counts from when
//! it was asked for. Nothing else is different: whoever is not granted ahead is handed the lock in a
//! round of its own.

use std::{sync::Arc, time::Duration};

use super::{
    LeaseId, Phase, Protocol,
    acquire::{Asks, Attempt, Verdict},
    line::{LONGEST_TURN, MOST_HAND_OVERS},
    message::{NodeId, Token},
    quorum,
    release::Claim,
    time::Instant,
    timer::Timer,
    validity::Terms,
};

/// For how many leases the lock is asked for ahead. As many as have their turn while a round takes.
const MOST_AHEAD: usize = 8;

/// A lease that was asked for so long ago is asked for again: most of it should be left.
fn is_stale(terms: &Terms, age: Duration) -> bool {
    age > LONGEST_TURN.min(terms.lease / 20)
}

impl Protocol {
    /// Asks for the leases that come after one that holds the lock, where their turn will come soon.
    pub(super) fn ask_ahead(&mut self, id: LeaseId, now: Instant) {
        let Some((order, patience)) = self.witnesses(id, now) else {
            return;
        };
        let Some((next, mut last)) = self.next_in_line(id) else {
            return;
        };
        let lease = &self.leases[&id];
        let Phase::Held(hold) = &lease.phase else {
            return;
        };
        let (key, owner) = (Arc::clone(&lease.key), hold.claim.owner);
        let nodes = self.wire.node_count();
        for next in next {
            let wall = Token((self.outside.wall_micros)());
            last = wall.max(Token(last.0 + 1));
            let claim = Claim::new(Arc::clone(&key), owner, nodes);
            let asks = Asks::new(order.clone(), patience);
            let mut attempt = Attempt::handed_over(claim, asks, last, now);
            let first = attempt.reach(quorum::majority(nodes));
            if let Some(lease) = self.leases.get_mut(&next) {
                lease.phase = Phase::Ahead(attempt);
            }
            self.ask_to_grant(next, first, now);
        }
        if let Some(lease) = self.leases.get_mut(&id)
            && let Phase::Held(hold) = &mut lease.phase
        {
            hold.claim.lives_for(lease.terms.key_ttl() + LONGEST_TURN);
        }
    }

    /// The nodes to ask, if a majority of them may have the key, and for how long they may take.
    fn witnesses(&self, id: LeaseId, now: Instant) -> Option<(Vec<NodeId>, Duration)> {
        let lease = &self.leases[&id];
        let line = self.lines.get(&lease.key)?;
        let Phase::Held(hold) = &lease.phase else {
            return None;
        };
        if !line.is_brisk || line.next().is_none() {
            return None;
        }
        let asks = self.asks(lease, &hold.claim.asked, now);
        self.holders_decide(&asks, &hold.claim.asked)
            .then_some((asks.order, asks.patience))
    }

    /// The leases to ask for, and the last number that was proposed. None as long as half of those
    /// that may be asked for ahead have been: several are asked for at once.
    fn next_in_line(&self, id: LeaseId) -> Option<(Vec<LeaseId>, Token)> {
        let lease = &self.leases[&id];
        let line = self.lines.get(&lease.key)?;
        let Phase::Held(hold) = &lease.phase else {
            return None;
        };
        let most = if hold.is_awaited {
            MOST_HAND_OVERS.saturating_sub(line.turn.hand_overs()) as usize
        } else {
            MOST_AHEAD
        };
        let (mut last, mut asked, mut next) = (hold.claim.seen, 0, Vec::new());
        for waiting in line.waiting().take(most.min(MOST_AHEAD)) {
            let lease = &self.leases[&waiting];
            match &lease.phase {
                Phase::Ahead(attempt) => {
                    last = last.max(attempt.proposal);
                    asked += 1;
                }
                Phase::Queued if lease.terms.key_ttl() == self.leases[&id].terms.key_ttl() => {
                    next.push(waiting);
                }
                _ => break,
            }
        }
        (asked <= MOST_AHEAD / 2 && !next.is_empty()).then_some((next, last))
    }

    /// What was asked for ahead is of no use without the claim of the lease that has the lock, which
    /// answers for it on the nodes.
    pub(super) fn forget_ahead(&mut self, key: &str) {
        let is_ahead = |id: &LeaseId| matches!(self.leases[id].phase, Phase::Ahead(_));
        let line = self.lines.get(key);
        // They come first.
        let waiting = line.iter().flat_map(|line| line.waiting());
        let ahead: Vec<LeaseId> = waiting.take_while(is_ahead).collect();
        for id in ahead {
            if let Some(lease) = self.leases.get_mut(&id) {
                lease.phase = Phase::Queued;
            }
        }
    }

    /// Lets a lease go on that was asked for ahead, under the claim of the one that ends. Gives the
    /// claim back where nothing has come of that, or too long ago.
    pub(super) fn take_up(
        &mut self,
        id: LeaseId,
        mut claim: Claim,
        after: Token,
        now: Instant,
    ) -> Option<Claim> {
        let Some(lease) = self.leases.get_mut(&id) else {
            return Some(claim);
        };
        let terms = lease.terms;
        let Phase::Ahead(mut attempt) = std::mem::replace(&mut lease.phase, Phase::Queued) else {
            return Some(claim);
        };
        let is_stale = is_stale(&terms, now.since(attempt.started));
        // Whoever wants to hear whether the key was still there at the end is told by a question
        // that is asked after it.
        let is_awaited = self.releases.reports.by(claim.owner).is_some();
        if is_stale || is_awaited {
            claim.seen = claim.seen.max(attempt.proposal);
            return Some(claim);
        }
        attempt.after = after;
        match attempt.verdict(&terms, now) {
            Verdict::Won { .. } | Verdict::Open | Verdict::Widen => {}
            Verdict::Confirm | Verdict::Anew | Verdict::Lost(_) => {
                claim.seen = claim.seen.max(attempt.proposal);
                return Some(claim);
            }
        }
        attempt.claim.take_over(claim);
        let wake = attempt.next_due(&terms);
        self.wire.timers.wake_by(Timer::Lease(id), wake);
        lease.phase = Phase::Trying(attempt);
        self.count_votes(id, now);
        None
    }
}
