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
    action::Vote,
    line::LONGEST_TURN,
    message::{NodeId, Reply, Token},
    quorum,
    release::Claim,
    time::Instant,
    timer::Timer,
    validity::Terms,
    wire::Purpose,
};

/// For how many leases the lock is asked for ahead. As many as have their turn while a round takes.
const MOST_AHEAD: usize = 8;

/// A lease that was asked for longer ago is asked for again: most of it should be left.
fn longest_age(terms: &Terms) -> Duration {
    LONGEST_TURN.min(terms.lease / 20)
}

/// How many sections fit into a time, one being longer than it should.
fn fit(time: Duration, section: Duration) -> usize {
    let sections = time.as_nanos() / section.as_nanos().max(1);
    usize::try_from(sections).map_or(MOST_AHEAD, |sections| sections.saturating_sub(1))
}

impl Protocol {
    /// Asks for the leases that come after one that holds the lock, where their turn will come soon.
    pub(super) fn ask_ahead(&mut self, id: LeaseId, now: Instant) {
        let Some((next, mut last)) = self.next_in_line(id, now) else {
            return;
        };
        let lease = &self.leases[&id];
        let Phase::Held(hold) = &lease.phase else {
            return;
        };
        let asks = self.asks(lease, &hold.claim.asked, now);
        if !self.holders_decide(&asks, &hold.claim.asked) {
            return;
        }
        let Asks {
            order, patience, ..
        } = asks;
        let (key, owner) = (Arc::clone(&lease.key), hold.claim.owner);
        let nodes = self.wire.node_count();
        for next in next {
            let wall = Token((self.outside.wall_micros)());
            last = wall.max(Token(last.0 + 1));
            let claim = Claim::new(Arc::clone(&key), owner, nodes);
            let asks = Asks::new(order.clone(), patience);
            let mut attempt = Attempt::handed_over(claim, asks, last, now);
            self.prepare(&mut attempt, now);
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

    /// The leases to ask for, and the last number that was proposed. None as long as half of those
    /// that may be asked for ahead have been: several are asked for at once.
    fn next_in_line(&self, id: LeaseId, now: Instant) -> Option<(Vec<LeaseId>, Token)> {
        let lease = &self.leases[&id];
        let line = self.lines.get(&lease.key)?;
        let Phase::Held(hold) = &lease.phase else {
            return None;
        };
        let section = line.section?;
        let mut most = MOST_AHEAD.min(fit(longest_age(&lease.terms), section));
        if hold.is_awaited {
            let (hand_overs, time) = line.turn.left(now);
            most = most.min(hand_overs as usize).min(fit(time, section));
        }
        let (mut last, mut asked, mut next) = (hold.claim.seen, 0, Vec::new());
        for waiting in line.waiting().take(most) {
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
        (asked <= most / 2 && !next.is_empty()).then_some((next, last))
    }

    /// What was asked for ahead is of no use without the claim of the lease that has the lock, which
    /// answers for it on the nodes. The highest number that was asked for.
    pub(super) fn forget_ahead(&mut self, key: &str) -> Token {
        let is_ahead = |id: &LeaseId| matches!(self.leases[id].phase, Phase::Ahead(_));
        let line = self.lines.get(key);
        // They come first.
        let waiting = line.iter().flat_map(|line| line.waiting());
        let ahead: Vec<LeaseId> = waiting.take_while(is_ahead).collect();
        let mut highest = Token::default();
        for id in ahead {
            if let Some(lease) = self.leases.get_mut(&id)
                && let Phase::Ahead(attempt) = std::mem::replace(&mut lease.phase, Phase::Queued)
            {
                highest = highest.max(attempt.highest());
            }
        }
        highest
    }

    /// What a node has said to a lease that is asked for ahead, of the one that has the lock.
    pub(super) fn hear_ahead(
        &mut self,
        node: NodeId,
        purpose: Purpose,
        reply: &Reply,
        now: Instant,
    ) {
        let Purpose::Acquire { lease, owner, .. } = purpose else {
            return;
        };
        let (is_lost, awaited) = match *reply {
            Reply::Granted {
                was_ours, awaited, ..
            } => (!was_ours, awaited),
            Reply::Held { .. } => (true, false),
            _ => return,
        };
        let lease = self
            .leases
            .get(&lease)
            .filter(|lease| matches!(lease.phase, Phase::Ahead(_)));
        let line = lease.and_then(|lease| self.lines.get(&lease.key));
        let Some(head) = line.map(|line| line.head) else {
            return;
        };
        let Some(hold) = self.held_by(head, owner) else {
            return;
        };
        hold.is_awaited |= awaited;
        if is_lost && hold.claim.kept_since[node.0].is_some() {
            // Seen now, because the node has the key again where it has granted.
            hold.on_word(node, Vote::NotOwner);
            self.look_at_hold(head, now);
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
        attempt.after = after;
        let is_fresh = now.since(attempt.started) <= longest_age(&terms);
        let is_reported = self.releases.reports.by(claim.owner).is_some();
        let is_of_use = is_fresh
            && !is_reported
            && matches!(
                attempt.verdict(&terms, now),
                Verdict::Won { .. } | Verdict::Open | Verdict::Widen
            );
        if !is_of_use {
            claim.seen = claim.seen.max(attempt.highest());
            return Some(claim);
        }
        attempt.claim.take_over(claim);
        let wake = attempt.next_due(&terms);
        self.wire.timers.wake_by(Timer::Lease(id), wake);
        lease.phase = Phase::Trying(attempt);
        self.count_votes(id, now);
        None
    }
}
