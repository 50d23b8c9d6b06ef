//! The protocol: what is sent when, what counts, who holds a lock and until when.
//!
//! There is no I/O here, no clock, no randomness of its own, no async and no locks: time comes
//! in with every event, random numbers through a function handed to [`Protocol::new`], and
//! everything it wants done comes out as an [`Action`]. The engine drives it with tokio and
//! Redis, a simulation drives the same code in virtual time. `tests/tidy.rs` keeps it so.
//!
//! To drive it:
//! 1. Read the clock, then hand in one event with [`Protocol::handle`]. `now` never decreases.
//! 2. Take out and carry out every action with [`Protocol::poll_action`], in order, to the end.
//! 3. Hand in [`Event::Wakeup`] at [`Protocol::next_wakeup`]; earlier, later or more often does
//!    no harm.
//!
//! A lease counts from the `now` of the `handle` that produced its sends, never from a reply.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod acquire;
mod action;
mod admission;
mod ahead;
mod ballot;
mod clock;
mod contend;
mod event;
mod fence;
mod hold;
mod line;
mod link;
mod message;
mod quorum;
mod release;
mod report;
#[cfg(test)]
mod tests;
mod time;
mod timer;
mod validity;
mod watch;
mod wire;

pub(crate) use action::{Action, Answer, Cause, Drained, Loss, NodeState, Outcome, Refusal, Vote};
pub(crate) use event::Event;
pub(crate) use fence::stripe;
pub(crate) use message::{
    ConnectionId, Facts, Fault, LeaseId, NodeId, Owner, Reply, Request, RequestId, Token,
};
pub(crate) use quorum::out_of_reach;
pub(crate) use time::Instant;
pub(crate) use validity::{
    Terms, default_guard_band, default_min_validity, default_node_timeout, default_renewal,
    key_ttl, outlasts_drift,
};
pub(crate) use wire::{BUSY_FROM, Settings};

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use self::{
    acquire::{Attempt, Verdict},
    admission::Admission,
    contend::Rest,
    hold::{Due, Hold},
    line::Line,
    message::AttemptId,
    release::{Claim, Releases},
    timer::Timer,
    wire::{Purpose, Sent, Wire},
};

/// How many lines are checked after each event: enough for every test of the rules, and no
/// quadratic cost with many thousands of locks.
#[cfg(debug_assertions)]
const INVARIANT_LINES: usize = 32;

/// What the protocol cannot know by itself, as functions of whoever drives it.
pub(crate) struct Outside {
    /// Random numbers, never the same twice.
    pub(crate) random: Box<dyn FnMut() -> u128 + Send>,
    /// Microseconds since 1970 on the wall clock. No rule relies on it: it only makes nodes
    /// likely to agree on a fencing token.
    pub(crate) wall_micros: Box<dyn FnMut() -> u64 + Send>,
}

/// The whole state: leases, lines, connections, and what is owed to nodes.
pub(crate) struct Protocol {
    outside: Outside,
    wire: Wire,
    leases: BTreeMap<LeaseId, Lease>,
    lines: BTreeMap<Arc<str>, Line>,
    /// Heads of lines that are to make their first attempt before the event is done with. Not
    /// made at once: where every attempt fails at once, each would come out of the one before.
    next: VecDeque<LeaseId>,
    /// Keys that are left to other processes until then.
    yields: BTreeMap<Arc<str>, Instant>,
    releases: Releases,
    /// One for each node.
    admissions: Vec<Admission>,
    asked: u64,
    attempts: u64,
    shutdown: Option<Shutdown>,
}

#[derive(Debug)]
struct Lease {
    key: Arc<str>,
    terms: Terms,
    /// Place in the line.
    order: u64,
    /// When its caller stops waiting.
    wait_until: Instant,
    lost_attempts: u32,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// Behind another lease of this process.
    Queued,
    /// The same, and the lock has been asked for.
    Ahead(Attempt),
    Trying(Attempt),
    Resting(Rest),
    Held(Hold),
    /// Lost or expired, and its holder has not let go yet. Nothing is released before that: a
    /// holder that is stuck keeps what is left of the guard band.
    Over(Hold),
}

/// Whom an attempt asks first, and for what.
#[derive(Debug)]
enum Opening {
    /// All nodes, or of a busy set as many as a majority needs.
    Many,
    /// One node, and more once it has granted.
    Leader,
    /// A majority that has the key, for a lock that another lease of this process hands over.
    HandedOver(Claim),
}

#[derive(Debug, Clone, Copy)]
struct Shutdown {
    until: Instant,
    drained: bool,
}

impl Protocol {
    /// Starts to connect to all nodes.
    pub(crate) fn new(nodes: usize, settings: Settings, outside: Outside, now: Instant) -> Self {
        Self {
            outside,
            wire: Wire::new(nodes, settings, now),
            leases: BTreeMap::new(),
            lines: BTreeMap::new(),
            next: VecDeque::new(),
            yields: BTreeMap::new(),
            releases: Releases::default(),
            admissions: (0..nodes).map(|_| Admission::default()).collect(),
            asked: 0,
            attempts: 0,
            shutdown: None,
        }
    }

    /// Takes in one event. Never fails: a refusal is an answer.
    pub(crate) fn handle(&mut self, event: Event, now: Instant) {
        match event {
            Event::Wakeup => self.on_wakeup(now),
            Event::Ask { lease, key, terms } => self.on_ask(lease, key, terms, now),
            Event::Extend { lease } => self.on_extend(lease, now),
            Event::End { lease, report } => self.on_end(lease, report, now),
            Event::Reply {
                node,
                request,
                reply,
            } => self.on_reply(node, request, reply, now),
            Event::Changed { node, key } => self.on_changed(node, key.as_ref(), now),
            Event::Connected {
                node,
                connection,
                facts,
            } => self.on_connected(node, connection, facts, now),
            Event::Disconnected {
                node,
                connection,
                reason,
            } if self.wire.is_current(node, connection) => {
                self.on_disconnected(node, &reason, now);
            }
            Event::Disconnected { .. } => {}
            Event::Shutdown { timeout, cut_off } => self.on_shutdown(timeout, cut_off, now),
        }
        self.look_at_reseeds(now);
        while let Some(head) = self.next.pop_front() {
            self.step_up(head, now);
        }
        self.settle_shutdown(now);
        #[cfg(debug_assertions)]
        self.invariants();
    }

    /// The next thing to do; `None` once all is done.
    #[must_use]
    pub(crate) fn poll_action(&mut self) -> Option<Action> {
        self.wire.actions.pop_front()
    }

    /// When to hand in the next wake-up.
    #[must_use]
    pub(crate) fn next_wakeup(&self) -> Option<Instant> {
        self.wire.timers.next()
    }

    fn on_wakeup(&mut self, now: Instant) {
        while let Some(timer) = self.wire.timers.pop_due(now) {
            match timer {
                Timer::Lease(lease) => self.on_lease_due(lease, now),
                Timer::Node(node) => match self.wire.on_due(node, now) {
                    Some(wire::Due::Disconnected(reason)) => {
                        self.on_disconnected(node, &reason, now);
                    }
                    Some(wire::Due::Verify) => self.end_quarantine(node, now),
                    None => {}
                },
                Timer::Release(owner) => self.releases.on_due(&mut self.wire, owner, now),
                // Looked at after every event.
                Timer::Shutdown => {}
            }
        }
    }

    // ---- acquiring

    fn on_ask(&mut self, id: LeaseId, key: Arc<str>, terms: Terms, now: Instant) {
        if self.shutdown.is_some() {
            return self.answer(id, Answer::Refused(Refusal::without_votes(Cause::Stopped)));
        }
        self.asked += 1;
        let lease = Lease {
            key: Arc::clone(&key),
            terms,
            order: self.asked,
            wait_until: now.after(terms.wait),
            lost_attempts: 0,
            phase: Phase::Queued,
        };
        let Some(line) = self.lines.get_mut(&key) else {
            self.lines.insert(key, Line::new(id));
            self.leases.insert(id, lease);
            return self.step_up(id, now);
        };
        if terms.wait.is_zero() {
            let refusal = self.refusal_in_line(&key, now);
            return self.answer(id, Answer::Refused(refusal));
        }
        line.join(lease.order, id);
        self.wire.timers.wake_by(Timer::Lease(id), lease.wait_until);
        self.leases.insert(id, lease);
    }

    /// Asks for the lock: under a new owner, or under that of the lease that hands it over. The new
    /// lease counts from `now`.
    fn attempt(&mut self, id: LeaseId, opening: Opening, now: Instant) {
        let Some(lease) = self.leases.get(&id) else {
            return;
        };
        let holders = match &opening {
            Opening::HandedOver(claim) => &claim.asked[..],
            Opening::Leader | Opening::Many => &[],
        };
        let asks = self.asks(lease, holders, now);
        let count = match &opening {
            Opening::Leader => 1,
            Opening::Many => self.many(),
            // Where some of the majority have not, what the others say of the key is needed too.
            Opening::HandedOver(claim) if self.holders_decide(&asks, &claim.asked) => {
                quorum::majority(self.wire.node_count())
            }
            Opening::HandedOver(_) => self.wire.node_count(),
        };
        let proposal = Token((self.outside.wall_micros)());
        let mut attempt = if let Opening::HandedOver(claim) = opening {
            Attempt::handed_over(claim, asks, proposal, now)
        } else {
            let owner = Owner((self.outside.random)());
            let claim = Claim::new(Arc::clone(&lease.key), owner, self.wire.node_count());
            Attempt::new(claim, asks, proposal, now)
        };
        let terms = lease.terms;
        self.prepare(&mut attempt, now);
        let first = attempt.reach(count);
        let wake = attempt.next_due(&terms);
        self.wire.timers.wake_by(Timer::Lease(id), wake);
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.phase = Phase::Trying(attempt);
        }
        self.ask_to_grant(id, first, now);
        self.count_votes(id, now);
    }

    /// Gives an attempt its name, and the votes of nodes that have none.
    fn prepare(&mut self, attempt: &mut Attempt, now: Instant) {
        self.attempts += 1;
        attempt.id = AttemptId(self.attempts);
        for node in self.wire.nodes() {
            if let Some(fault) = self.wire.fault(node, now) {
                attempt.on_vote(node, Vote::Failed(fault));
            }
        }
    }

    fn ask_to_grant(&mut self, id: LeaseId, nodes: Vec<NodeId>, now: Instant) {
        let Some(lease) = self.leases.get_mut(&id) else {
            return;
        };
        let (Phase::Trying(attempt) | Phase::Ahead(attempt)) = &mut lease.phase else {
            return;
        };
        let purpose = Purpose::Acquire {
            lease: id,
            owner: attempt.claim.owner,
            attempt: attempt.id,
        };
        let spare = attempt.spare();
        let mut ttl = lease.terms.key_ttl();
        if spare.is_none() && self.lines.get(&lease.key).and_then(Line::next).is_some() {
            // Then the first hand-over need not write the key either.
            ttl += line::LONGEST_TURN;
        }
        let waits = now < lease.wait_until;
        // As high as where it has been granted already, so that the nodes agree.
        let proposal = attempt.claim.seen.max(attempt.proposal);
        let owner = attempt.claim.owner;
        let mut asked = Vec::with_capacity(nodes.len());
        for node in nodes {
            let body = attempt.claim.question(ttl, proposal, spare, waits);
            let request = self.wire.next_request();
            match self.wire.ask(node, purpose, body, now) {
                Ok(()) => {
                    attempt.claim.asked_now.push(node);
                    asked.push((node, request));
                }
                Err(fault) => attempt.on_vote(node, Vote::Failed(fault)),
            }
        }
        for (node, request) in asked {
            self.on_question(id, owner, node, request);
        }
    }

    /// A request to grant goes to a node: also for the claim of a lease before that has the lock, if it
    /// is asked for ahead.
    fn on_question(&mut self, id: LeaseId, owner: Owner, node: NodeId, request: RequestId) {
        let lease = self.leases.get(&id);
        let line = lease.and_then(|lease| self.lines.get(&lease.key));
        let head = line.map(|line| line.head).filter(|&head| head != id);
        for id in [Some(id), head].into_iter().flatten() {
            if let Some(claim) = self.claim_of(id, owner) {
                claim.on_question(node, request);
            }
        }
    }

    /// Asks nodes that an attempt has not asked yet.
    fn widen(&mut self, id: LeaseId, now: Instant) {
        let many = self.many();
        let Some(lease) = self.leases.get_mut(&id) else {
            return;
        };
        let Phase::Trying(attempt) = &mut lease.phase else {
            return;
        };
        let more = attempt.widen(many);
        let wake = attempt.next_due(&lease.terms);
        self.wire.timers.wake_by(Timer::Lease(id), wake);
        self.ask_to_grant(id, more, now);
        self.count_votes(id, now);
    }

    /// Asks the nodes that a lease has not asked yet: it should not rest on a bare majority for longer
    /// than it must. Always behind the question who still has it: that a majority had
    /// lost it in between must not go unseen because others have it now.
    fn spread(&mut self, id: LeaseId, now: Instant) {
        let Some(lease) = self.leases.get_mut(&id) else {
            return;
        };
        let Phase::Held(hold) = &mut lease.phase else {
            return;
        };
        let (owner, seen) = (hold.claim.owner, hold.claim.seen);
        let purpose = Purpose::Acquire {
            lease: id,
            owner,
            attempt: hold.attempt,
        };
        for node in self.wire.nodes() {
            if hold.claim.asked_now.contains(&node) {
                continue;
            }
            let ttl = lease.terms.key_ttl();
            // It may have the key, from a lease before.
            let spare = Some(Duration::ZERO);
            let body = hold.claim.question(ttl, seen, spare, false);
            let request = self.wire.next_request();
            if self.wire.ask(node, purpose, body, now).is_ok() {
                hold.claim.asked_now.push(node);
                hold.claim.on_question(node, request);
            }
        }
    }

    fn count_votes(&mut self, id: LeaseId, now: Instant) {
        let Some(lease) = self.leases.get_mut(&id) else {
            return;
        };
        let Phase::Trying(attempt) = &mut lease.phase else {
            return;
        };
        let verdict = attempt.verdict(&lease.terms, now);
        match verdict {
            Verdict::Open => return,
            Verdict::Widen => return self.widen(id, now),
            Verdict::Confirm => return self.confirm(id, now),
            Verdict::Won { .. } | Verdict::Anew | Verdict::Lost(_) => {}
        }
        let Phase::Trying(attempt) = std::mem::replace(&mut lease.phase, Phase::Queued) else {
            return;
        };
        let owner = attempt.claim.owner;
        match verdict {
            Verdict::Open | Verdict::Widen | Verdict::Confirm => {}
            Verdict::Won { deadline, token } => {
                let hold = Hold::new(attempt, (deadline, token), &lease.terms, now);
                let wake = hold.next_due(&lease.terms);
                lease.phase = Phase::Held(hold);
                self.wire.timers.wake_by(Timer::Lease(id), wake);
                if let Some(line) = self.lines.get_mut(&lease.key) {
                    line.last_refusal = None;
                    if line.turn.begin(now) {
                        line.patience.on_own_turn();
                    }
                }
                self.answer(id, Answer::Granted { deadline, token });
                if self.releases.reports.by(owner).is_some() {
                    // The lease before has not heard from a majority yet that had its key.
                    self.wire.nodes().for_each(|node| self.watch(node, id, now));
                }
                self.ask_ahead(id, now);
            }
            Verdict::Anew if now < lease.wait_until => {
                let key = Arc::clone(&lease.key);
                self.forget_ahead(&key);
                self.releases.release(&mut self.wire, attempt.claim, now);
                self.attempt(id, Opening::Many, now);
            }
            Verdict::Anew => self.on_lost_attempt(id, attempt, Cause::TooSlow, now),
            Verdict::Lost(cause) => self.on_lost_attempt(id, attempt, cause, now),
        }
    }

    /// Asks the nodes that granted different numbers to settle on the highest.
    fn confirm(&mut self, id: LeaseId, now: Instant) {
        let Some(lease) = self.leases.get_mut(&id) else {
            return;
        };
        let Phase::Trying(attempt) = &mut lease.phase else {
            return;
        };
        let owner = attempt.claim.owner;
        let (token, nodes) = attempt.begin_confirmation();
        // Those that were not asked yet are, beside it: their grants may settle it as well, also if
        // one of the first fails now.
        let others = attempt.reach(self.wire.node_count());
        for node in nodes {
            let body = Request::Confirm {
                key: Arc::clone(&lease.key),
                owner,
                token,
            };
            let purpose = Purpose::Confirm {
                lease: id,
                attempt: attempt.id,
            };
            if let Err(fault) = self.wire.ask(node, purpose, body, now) {
                attempt.on_confirmation(node, Vote::Failed(fault));
            }
        }
        self.ask_to_grant(id, others, now);
        self.count_votes(id, now);
    }

    /// Releases everywhere, before the next attempt, which carries a new owner.
    fn on_lost_attempt(&mut self, id: LeaseId, attempt: Attempt, cause: Cause, now: Instant) {
        let Some(lease) = self.leases.get_mut(&id) else {
            return;
        };
        lease.lost_attempts += 1;
        let key = Arc::clone(&lease.key);
        self.forget_ahead(&key);
        let (claim, refusal) = attempt.into_refusal(cause);
        self.releases.release(&mut self.wire, claim, now);
        if let Some(line) = self.lines.get_mut(&key) {
            line.last_refusal = Some(refusal.clone());
            line.turn.end();
        }
        self.rest_or_refuse(id, refusal, now);
    }

    fn rest_or_refuse(&mut self, id: LeaseId, refusal: Refusal, now: Instant) {
        let random = (self.outside.random)();
        let Some(lease) = self.leases.get_mut(&id) else {
            return;
        };
        if now >= lease.wait_until {
            return self.refuse(id, refusal);
        }
        let (key, lost_attempts) = (Arc::clone(&lease.key), lease.lost_attempts);
        let post = self.listening_post(&key, &refusal);
        let pause = line::pause(lost_attempts, &refusal, post.is_some(), random);
        let Some(lease) = self.leases.get_mut(&id) else {
            return;
        };
        // The last attempt is made when the caller's patience ends, not given up before.
        let until = now.after(pause).min(lease.wait_until);
        lease.phase = Phase::Resting(Rest::after(refusal, until));
        self.wire.timers.wake_by(Timer::Lease(id), until);
        if let Some(node) = post {
            self.read(node, id, now);
        }
    }

    /// Forgets a lease that was not acquired.
    fn refuse(&mut self, id: LeaseId, refusal: Refusal) {
        self.answer(id, Answer::Refused(refusal));
        self.forget(id);
    }

    // ---- waiting

    /// Removes a lease, and lets the next in its line go on.
    fn forget(&mut self, id: LeaseId) {
        self.wire.timers.cancel(Timer::Lease(id));
        if let Some(lease) = self.leases.remove(&id) {
            self.step_out(id, &lease.key, lease.order);
        }
    }

    /// Takes a lease out of its line, wherever it stands.
    fn step_out(&mut self, id: LeaseId, key: &Arc<str>, order: u64) {
        let Some(line) = self.lines.get_mut(key) else {
            return;
        };
        if line.head != id {
            line.leave(order);
            return;
        }
        self.forget_ahead(key);
        let Some(line) = self.lines.get_mut(key) else {
            return;
        };
        line.turn.end();
        match line.advance() {
            Some(next) => self.next.push_back(next),
            None => {
                self.lines.remove(key);
            }
        }
    }

    /// What somebody hears who does not get to ask the nodes, because another lease of this
    /// process is ahead: that it is held, or whatever keeps the one ahead from holding it.
    fn refusal_in_line(&self, key: &Arc<str>, now: Instant) -> Refusal {
        let line = self.lines.get(key);
        let head = line.and_then(|line| self.leases.get(&line.head));
        if let Some(Phase::Held(hold)) = head.map(|lease| &lease.phase) {
            return Refusal::without_votes(Cause::Contended {
                retry_after: Some(hold.deadline.since(now)),
            });
        }
        line.and_then(|line| line.last_refusal.clone())
            .unwrap_or_else(|| Refusal::without_votes(Cause::Contended { retry_after: None }))
    }

    fn on_lease_due(&mut self, id: LeaseId, now: Instant) {
        let Some(lease) = self.leases.get(&id) else {
            return;
        };
        match &lease.phase {
            Phase::Queued | Phase::Ahead(_) if now >= lease.wait_until => {
                let refusal = self.refusal_in_line(&Arc::clone(&lease.key), now);
                self.refuse(id, refusal);
            }
            Phase::Queued | Phase::Ahead(_) => {
                self.wire.timers.wake_by(Timer::Lease(id), lease.wait_until);
            }
            Phase::Trying(attempt) => {
                let due = attempt.next_due(&lease.terms);
                if now < due {
                    self.wire.timers.wake_by(Timer::Lease(id), due);
                }
                self.count_votes(id, now);
            }
            Phase::Resting(rest) if now >= rest.due() => {
                let opening = rest.opening(lease.wait_until, now);
                self.attempt(id, opening, now);
            }
            Phase::Resting(rest) => self.wire.timers.wake_by(Timer::Lease(id), rest.due()),
            Phase::Held(_) => self.look_at_hold(id, now),
            Phase::Over(_) => {}
        }
    }

    // ---- holding

    fn on_extend(&mut self, id: LeaseId, now: Instant) {
        let Some(lease) = self.leases.get_mut(&id) else {
            return;
        };
        if let Phase::Held(hold) = &mut lease.phase
            && hold.ask_extension()
            && now < hold.deadline
        {
            self.extend(id, true, now);
        }
        self.look_at_hold(id, now);
    }

    /// Broadcasts an extension to all nodes.
    fn extend(&mut self, id: LeaseId, asked: bool, now: Instant) {
        let Some(lease) = self.leases.get_mut(&id) else {
            return;
        };
        let Phase::Held(hold) = &mut lease.phase else {
            return;
        };
        let extension = hold.begin_extension(self.wire.node_count(), asked, now);
        for node in self.wire.nodes() {
            let body = Request::Extend {
                key: Arc::clone(&lease.key),
                owner: hold.claim.owner,
                ttl: lease.terms.key_ttl(),
            };
            let purpose = Purpose::Extend {
                lease: id,
                extension,
            };
            if let Err(fault) = self.wire.ask(node, purpose, body, now) {
                hold.on_vote(node, Vote::Failed(fault));
            }
        }
        self.spread(id, now);
    }

    fn look_at_hold(&mut self, id: LeaseId, now: Instant) {
        loop {
            let Some(lease) = self.leases.get_mut(&id) else {
                return;
            };
            let Phase::Held(hold) = &mut lease.phase else {
                return;
            };
            match hold.look(&lease.terms, now) {
                Due::Nothing => {
                    let wake = hold.next_due(&lease.terms);
                    return self.wire.timers.wake_by(Timer::Lease(id), wake);
                }
                Due::Renew => self.extend(id, false, now),
                Due::Watch => {
                    self.wire.nodes().for_each(|node| self.watch(node, id, now));
                    self.spread(id, now);
                }
                Due::Extended { deadline } => self.answer(id, Answer::Extended { deadline }),
                Due::NotExtended { votes } => {
                    if let Some(votes) = votes {
                        self.answer(id, Answer::NotExtended { votes });
                    }
                }
                Due::Over(loss) => return self.on_over(id, loss),
            }
        }
    }

    /// Reads the key of a held lease on one node that will then tell of its changes.
    fn watch(&mut self, node: NodeId, id: LeaseId, now: Instant) {
        let tells = self.admissions[node.0].tells_changes();
        let Some(lease) = self.leases.get(&id).filter(|_| tells) else {
            return;
        };
        let Phase::Held(hold) = &lease.phase else {
            return;
        };
        let owner = hold.claim.owner;
        let body = Request::Watch {
            key: Arc::clone(&lease.key),
            owner: Some(owner),
        };
        // Not connected: the next renewal looks again.
        let _ = self
            .wire
            .ask(node, Purpose::Watch { lease: id, owner }, body, now);
    }

    /// A new connection tells of nothing that was read on the one before.
    fn watch_again(&mut self, node: NodeId, now: Instant) {
        let is_watched = |lease: &Lease| match &lease.phase {
            Phase::Held(hold) => hold.is_watched() && hold.claim.asked.contains(&node),
            _ => false,
        };
        let watched: Vec<LeaseId> = self
            .leases
            .iter()
            .filter(|(_, lease)| is_watched(lease))
            .map(|(&id, _)| id)
            .collect();
        for id in watched {
            self.watch(node, id, now);
        }
    }

    /// A node's word that a key may have changed. It is read again before anything is believed.
    fn on_changed(&mut self, node: NodeId, key: Option<&Arc<str>>, now: Instant) {
        let heads: Vec<LeaseId> = match key {
            Some(key) => self
                .lines
                .get(key)
                .map(|line| line.head)
                .into_iter()
                .collect(),
            None => self.lines.values().map(|line| line.head).collect(),
        };
        for head in heads {
            self.watch(node, head, now);
            self.read(node, head, now);
        }
    }

    /// Ends a lease under its holder. Those in line may go on: the nodes decide when.
    fn on_over(&mut self, id: LeaseId, loss: Loss) {
        self.answer(id, Answer::Over(loss));
        self.wire.timers.cancel(Timer::Lease(id));
        let Some(lease) = self.leases.get_mut(&id) else {
            return;
        };
        match std::mem::replace(&mut lease.phase, Phase::Queued) {
            Phase::Held(hold) => lease.phase = Phase::Over(hold),
            other => lease.phase = other,
        }
        let (key, order) = (Arc::clone(&lease.key), lease.order);
        if let Some(line) = self.lines.get_mut(&key) {
            line.section = None;
        }
        self.step_out(id, &key, order);
    }

    // ---- releasing

    fn on_end(&mut self, id: LeaseId, report: bool, now: Instant) {
        self.wire.timers.cancel(Timer::Lease(id));
        let Some(mut lease) = self.leases.remove(&id) else {
            if report {
                self.answer(id, Answer::Released(Outcome::Unknown));
            }
            return;
        };
        let phase = std::mem::replace(&mut lease.phase, Phase::Queued);
        let claim = match phase {
            Phase::Held(hold) if now < hold.deadline => {
                if report {
                    let by = now.after(lease.terms.round_timeout());
                    self.releases.report(&mut self.wire, &hold.claim, id, by);
                }
                return self.pass_on(id, &lease, hold, now);
            }
            Phase::Held(hold) | Phase::Over(hold) => {
                if report {
                    self.answer(id, Answer::Released(Outcome::AlreadyExpired));
                }
                hold.claim
            }
            phase => {
                if report {
                    self.answer(id, Answer::Released(Outcome::Unknown));
                }
                match phase {
                    Phase::Trying(attempt) => attempt.claim,
                    _ => return self.step_out(id, &lease.key, lease.order),
                }
            }
        };
        self.releases.release(&mut self.wire, claim, now);
        // Behind the release, so that it finds the key free: requests keep their order.
        self.step_out(id, &lease.key, lease.order);
    }

    // ---- nodes

    fn on_reply(&mut self, node: NodeId, request: RequestId, reply: Reply, now: Instant) {
        // A reply from a connection that was given up: its request was counted as failed.
        let Some(sent) = self.wire.on_reply(node, request, now) else {
            return;
        };
        self.hear_of_key(node, request, sent.purpose, &reply);
        self.hear_ahead(node, sent.purpose, &reply, now);
        match (sent.purpose, reply) {
            (_, Reply::NoScript | Reply::NotAdmitted) => self.on_stranger(node, sent, now),
            (Purpose::Verify, reply) => self.on_verified(node, reply, now),
            (Purpose::Reseed { of }, reply) => self.on_top(of, &reply),
            (Purpose::Release { owner }, reply) => {
                let from = (node, owner);
                self.releases
                    .on_reply(&mut self.wire, from, request, &reply, now);
            }
            (Purpose::Await { lease }, reply) => self.on_word(node, lease, &reply, now),
            (
                Purpose::Acquire { lease, attempt, .. },
                Reply::Granted {
                    counter, awaited, ..
                },
            ) => self.on_grant(node, (lease, attempt), (counter, awaited), now),
            (Purpose::Extend { lease, extension }, Reply::Extended { remaining }) => {
                let vote = self.vote_to_extend(node, (lease, extension), remaining, now);
                self.on_vote(node, sent.purpose, vote, now);
            }
            (purpose, reply) => self.on_vote(node, purpose, Vote::from(reply), now),
        }
    }

    /// What an answer tells of the key, beside what it was asked for.
    fn hear_of_key(&mut self, node: NodeId, request: RequestId, purpose: Purpose, reply: &Reply) {
        let (lease, owner) = match purpose {
            Purpose::Acquire { lease, owner, .. } | Purpose::Watch { lease, owner } => {
                (lease, owner)
            }
            _ => return,
        };
        let had_it = match *reply {
            Reply::Granted { was_ours, .. } => Some(was_ours),
            Reply::Ours => Some(true),
            Reply::Held { .. } | Reply::Taken { .. } | Reply::Free => Some(false),
            Reply::Failed(_) if matches!(purpose, Purpose::Acquire { .. }) => None,
            _ => return,
        };
        if let Some(claim) = self.claim_of(lease, owner) {
            match reply {
                Reply::Ours => claim.may_be_on(node),
                Reply::Held { .. } => claim.on_refused(node, request),
                _ => {}
            }
        }
        let from = (node, owner);
        let reports = &mut self.releases.reports;
        reports.on_word(&mut self.wire, from, request, had_it);
    }

    fn on_grant(
        &mut self,
        node: NodeId,
        (id, number): (LeaseId, AttemptId),
        (counter, is_awaited): (Token, bool),
        now: Instant,
    ) {
        let Some(lease) = self.leases.get_mut(&id) else {
            return;
        };
        match &mut lease.phase {
            Phase::Trying(attempt) | Phase::Ahead(attempt) if attempt.id == number => {
                attempt.claim.kept_since[node.0] = Some(attempt.started);
                attempt.is_awaited |= is_awaited;
                attempt.on_grant(node, counter, now);
                self.count_votes(id, now);
            }
            Phase::Held(hold) if hold.attempt == number => {
                hold.claim.kept_since[node.0] = Some(hold.acquired);
                hold.claim.hear(counter);
                hold.is_awaited |= is_awaited;
                if hold.is_watched() {
                    // It may have said that it has nothing, and tells of no change that is ours.
                    self.watch(node, id, now);
                }
            }
            // The verdict has fallen. A grant that arrives now is covered: by the release of a
            // lost attempt, which went out behind the request, or by the release that will
            // follow a held lease to every node that was asked.
            _ => {}
        }
    }

    /// An extension that a node has carried out, unless its clock is not to be trusted.
    fn vote_to_extend(
        &mut self,
        node: NodeId,
        (id, extension): (LeaseId, u32),
        remaining: Option<Duration>,
        now: Instant,
    ) -> Vote {
        let Some(lease) = self.leases.get_mut(&id) else {
            return Vote::Ours;
        };
        let (terms, Phase::Held(hold)) = (lease.terms, &mut lease.phase) else {
            return Vote::Ours;
        };
        // Also after the verdict: else the clock of a node that is always last went unseen.
        if !hold.is_last(extension) {
            return Vote::Ours;
        }
        let lead = hold.on_remaining(node, remaining, &terms, now);
        self.on_lead(node, lead, &terms, now)
            .map_or(Vote::Ours, Vote::Failed)
    }

    fn on_vote(&mut self, node: NodeId, purpose: Purpose, vote: Vote, now: Instant) {
        match purpose {
            Purpose::Acquire { lease, attempt, .. } => {
                if let Some(attempt) = self.attempt_of(lease, attempt) {
                    attempt.on_vote(node, vote);
                    self.count_votes(lease, now);
                }
            }
            Purpose::Confirm { lease, attempt } => {
                if let Some(attempt) = self.attempt_of(lease, attempt) {
                    attempt.on_confirmation(node, vote);
                    self.count_votes(lease, now);
                }
            }
            Purpose::Extend { lease, extension } => {
                if let Some(hold) = self.hold_of(lease, extension) {
                    hold.on_vote(node, vote);
                    self.look_at_hold(lease, now);
                }
            }
            Purpose::Watch { lease, owner } => {
                if let Some(hold) = self.held_by(lease, owner) {
                    hold.on_word(node, vote);
                    self.look_at_hold(lease, now);
                }
            }
            Purpose::Verify
            | Purpose::Reseed { .. }
            | Purpose::Await { .. }
            | Purpose::Release { .. } => {}
        }
    }

    /// The server has lost its scripts or its marker, and so may be another process, or may have
    /// lost more: nothing is voted on before that is known. Releases and the verification itself
    /// need no vote.
    fn on_stranger(&mut self, node: NodeId, sent: Sent, now: Instant) {
        match sent.purpose {
            Purpose::Verify | Purpose::Reseed { .. } | Purpose::Release { .. } => {
                self.wire.send_with_source(node, sent, now);
            }
            Purpose::Acquire { .. }
            | Purpose::Confirm { .. }
            | Purpose::Extend { .. }
            | Purpose::Watch { .. }
            | Purpose::Await { .. } => {
                self.wire.keep_back(node, sent);
                if !self.wire.is_verifying(node) {
                    self.verify(node, now);
                }
            }
        }
    }

    /// Sends what was kept back. What is not wanted any more must not be sent: its release has
    /// gone out.
    fn send_if_wanted(&mut self, node: NodeId, sent: Sent, now: Instant) {
        let wanted = match sent.purpose {
            // Also of a lock that the other nodes have granted meanwhile: it should not rest on a
            // bare majority.
            Purpose::Acquire { lease, attempt, .. } => {
                let hold = self.leases.get(&lease).map(|lease| &lease.phase);
                let is_held = matches!(hold, Some(Phase::Held(hold)) if hold.attempt == attempt);
                is_held || self.attempt_of(lease, attempt).is_some()
            }
            Purpose::Confirm { lease, attempt } => self.attempt_of(lease, attempt).is_some(),
            Purpose::Extend { lease, extension } => self.hold_of(lease, extension).is_some(),
            Purpose::Watch { lease, owner } => self.held_by(lease, owner).is_some(),
            Purpose::Await { lease } => self.leases.contains_key(&lease),
            Purpose::Verify | Purpose::Reseed { .. } | Purpose::Release { .. } => true,
        };
        if !wanted {
            return;
        }
        if let Purpose::Acquire { lease, owner, .. } = sent.purpose {
            let request = self.wire.next_request();
            self.on_question(lease, owner, node, request);
        }
        self.wire.send_with_source(node, sent, now);
    }

    fn on_connected(&mut self, node: NodeId, connection: ConnectionId, facts: Facts, now: Instant) {
        let random = (self.outside.random)();
        if self.wire.is_current(node, connection)
            && self.wire.on_connected(node, &facts, random, now)
        {
            self.begin_admission(node, facts, now);
        }
    }

    /// Who rests for want of nodes has one more now.
    fn wake_starved(&mut self, now: Instant) {
        let starved: Vec<LeaseId> = self
            .lines
            .values()
            .map(|line| line.head)
            .filter(|head| self.is_starved(*head))
            .collect();
        for head in starved {
            self.attempt(head, Opening::Many, now);
        }
    }

    fn on_disconnected(&mut self, node: NodeId, reason: &Arc<str>, now: Instant) {
        let random = (self.outside.random)();
        let unanswered = self.wire.on_disconnected(node, reason, random, now);
        self.admissions[node.0].stop_reseed();
        for sent in unanswered {
            let fault = Fault::Disconnected(Arc::clone(reason));
            if let Purpose::Reseed { of } = sent.purpose {
                self.on_top(of, &Reply::Failed(fault));
                continue;
            }
            if let Purpose::Acquire { owner, .. } = sent.purpose {
                let (from, last) = ((node, owner), self.wire.next_request());
                let reports = &mut self.releases.reports;
                reports.on_word(&mut self.wire, from, last, None);
            }
            self.on_vote(node, sent.purpose, Vote::Failed(fault), now);
        }
    }

    // ---- shutting down

    fn on_shutdown(&mut self, timeout: Duration, cut_off: bool, now: Instant) {
        self.shutdown = Some(Shutdown {
            until: now.after(timeout),
            drained: false,
        });
        // Those behind others first, so that none of them becomes the head and begins an attempt.
        let (queued, heads): (Vec<LeaseId>, _) = self
            .leases
            .keys()
            .partition(|id| matches!(self.leases[id].phase, Phase::Queued | Phase::Ahead(_)));
        for id in queued.into_iter().chain(heads) {
            self.stop(id, cut_off, now);
        }
    }

    fn stop(&mut self, id: LeaseId, cut_off: bool, now: Instant) {
        match self.leases.get(&id).map(|lease| &lease.phase) {
            None | Some(Phase::Over(_)) => {}
            Some(Phase::Held(_)) if cut_off => self.on_over(id, Loss::Stopped),
            Some(Phase::Held(_)) => {}
            Some(Phase::Queued | Phase::Ahead(_) | Phase::Trying(_) | Phase::Resting(_)) => {
                self.answer(id, Answer::Refused(Refusal::without_votes(Cause::Stopped)));
                self.on_end(id, false, now);
            }
        }
    }

    fn settle_shutdown(&mut self, now: Instant) {
        let Some(shutdown) = self.shutdown else {
            return;
        };
        if shutdown.drained {
            return;
        }
        let complete = self.leases.is_empty() && self.releases.are_confirmed(&self.wire);
        if !complete && now < shutdown.until {
            return self.wire.timers.wake_by(Timer::Shutdown, shutdown.until);
        }
        let left = Drained {
            held: self.leases.len(),
            unconfirmed: self.releases.unconfirmed(&self.wire),
        };
        self.shutdown = Some(Shutdown {
            drained: true,
            ..shutdown
        });
        let held: Vec<LeaseId> = self.leases.keys().copied().collect();
        for id in held {
            self.stop(id, true, now);
        }
        self.wire.actions.push_back(Action::Drained(left));
    }

    // ---- looking things up

    fn answer(&mut self, lease: LeaseId, answer: Answer) {
        self.wire
            .actions
            .push_back(Action::Answer { lease, answer });
    }

    fn attempt_of(&mut self, lease: LeaseId, id: AttemptId) -> Option<&mut Attempt> {
        match &mut self.leases.get_mut(&lease)?.phase {
            Phase::Trying(attempt) | Phase::Ahead(attempt) if attempt.id == id => Some(attempt),
            _ => None,
        }
    }

    /// What a lease may have on nodes under this owner.
    fn claim_of(&mut self, lease: LeaseId, owner: Owner) -> Option<&mut Claim> {
        let claim = match &mut self.leases.get_mut(&lease)?.phase {
            Phase::Trying(attempt) | Phase::Ahead(attempt) => &mut attempt.claim,
            Phase::Held(hold) => &mut hold.claim,
            _ => return None,
        };
        (claim.owner == owner).then_some(claim)
    }

    fn hold_of(&mut self, lease: LeaseId, extension: u32) -> Option<&mut Hold> {
        match &mut self.leases.get_mut(&lease)?.phase {
            Phase::Held(hold) if hold.is_current(extension) => Some(hold),
            _ => None,
        }
    }

    fn held_by(&mut self, lease: LeaseId, owner: Owner) -> Option<&mut Hold> {
        match &mut self.leases.get_mut(&lease)?.phase {
            Phase::Held(hold) if hold.claim.owner == owner => Some(hold),
            _ => None,
        }
    }

    fn is_starved(&self, lease: LeaseId) -> bool {
        matches!(
            self.leases.get(&lease).map(|lease| &lease.phase),
            Some(Phase::Resting(Rest { refusal, .. }))
                if matches!(refusal.cause, Cause::NoQuorum | Cause::Quarantined { .. })
        )
    }

    /// What is true between any two events.
    #[cfg(debug_assertions)]
    fn invariants(&self) {
        for (key, line) in self.lines.iter().take(INVARIANT_LINES) {
            let head = &self.leases[&line.head];
            assert_eq!(&head.key, key);
            assert!(
                !matches!(head.phase, Phase::Queued | Phase::Ahead(_) | Phase::Over(_)),
                "the head of a line is trying, resting or holding"
            );
        }
    }
}

impl fmt::Debug for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Protocol")
            .field("leases", &self.leases)
            .field("lines", &self.lines)
            .finish_non_exhaustive()
    }
}

impl Refusal {
    /// Somebody has the lock, and so will let go of it.
    const fn is_contended(&self) -> bool {
        matches!(self.cause, Cause::Contended { .. })
    }

    const fn without_votes(cause: Cause) -> Self {
        Self {
            cause,
            votes: Vec::new(),
        }
    }
}

impl From<Reply> for Vote {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Granted { .. } | Reply::Confirmed | Reply::Extended { .. } | Reply::Ours => {
                Self::Ours
            }
            Reply::Held { remaining } => Self::Held { remaining },
            Reply::NotOwner | Reply::Taken { .. } | Reply::Free => Self::NotOwner,
            Reply::Failed(fault) => Self::Failed(fault),
            _ => Self::Failed(Fault::Garbled("an answer to another question".into())),
        }
    }
}
