//! A lock with permits: up to that number of sections of the whole fleet have it at a time.
//!
//! It has a *slot* for each permit, which is a lock of its own with a key of its own. A majority of nodes decides each
//! of them, so there are never more holders than slots. The callers of this process wait at one more key, the *line*,
//! which nobody has. Its queue on the nodes is that of the lock.
//!
//! A first attempt is for some slot that this process does not have. If that fails, the process *stands* in line: the
//! leader is asked, and says which slot is free for it, or that none is. The leader leaves that slot to the process
//! for a moment, and the process asks all nodes for it. So nobody asks for slots that others have.
//!
//! A slot that this process has passes from one caller to the next like any lock, without any node. Of as many slots as
//! there are for each process, its *share*, it does so while others wait, too. When a slot is released, the node deletes
//! the key of the line, by which those who wait hear of it.

use std::{cmp::Ordering, collections::BTreeSet, mem, sync::Arc, time::Duration};

use super::{
    Front, Key,
    cx::Cx,
    queue::Waiting,
    waiting::{Place, TICK, Waiter, pause_within},
};
use crate::{
    action::{Cause, Refusal, Verdict},
    message::{Ahead, NodeId, Owner, Reply, Request, SectionId, Stand, Ticket},
    purpose::{Ask, RoundId},
    rules::backoff::{self, jitter},
    time::Instant,
};

/// The longest pause of a process after a slot was lost that was free; doubled with every further one, up to eight times
/// as long.
const LOST_PAUSE: Duration = Duration::from_millis(2);

/// One in this number of failed attempts is followed by one for any slot: of keys that nobody comes for, the leader
/// has some that the other nodes lack, and lacks some that they have.
const ASKS_ANY_EVERY: u32 = 2;

/// What the key at which callers wait knows of the slots.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// The slots that this process has or asks for.
    busy: BTreeSet<u32>,
    /// See [`Reply::Full`]; none before the first.
    share: Option<u32>,
    /// In the queue, while no waiter is at the front.
    place: Place,
    /// So many attempts have got no slot since one has.
    losses: u32,
    /// The last slot that was lost so.
    lost: Option<u32>,
    /// No caller asks before: those that take turns at it would ask as often as nodes reply.
    rests_until: Option<Instant>,
}

/// What a slot knows of the line, from when a waiter has been sent here until the line hears that the slot is free.
#[derive(Debug)]
pub(super) struct Slot {
    number: u32,
    /// Its turn has ended because other processes wait.
    was_waited_for: bool,
    /// It has been won, and is not given to a caller yet.
    is_won: bool,
}

/// What passes between the line and the slots of one lock.
#[derive(Debug)]
pub(crate) enum Move {
    /// To a slot: this waiter asks for it.
    Take { slot: u32, waiter: Box<Waiter> },
    /// To the line: the slot has been won for this waiter, or for one who called before.
    Won(Box<Waiter>),
    /// To the line: this waiter has not got the slot.
    Lost {
        slot: u32,
        waiter: Box<Waiter>,
        refusal: Refusal,
    },
    /// To the line: the turn is over, and this one has had no part in it.
    Return(Waiting),
    /// To the line: the turn in the slot is over, or nobody asks for it any more.
    Free { slot: u32, was_waited_for: bool },
    /// To the line: the slot is released only now, after the end of its turn.
    Released,
}

/// A node is asked for a free slot: the leader, or then another one that may know better.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) waiter: Waiter,
    round: RoundId,
    node: NodeId,
    /// It is not waited for any longer.
    until: Instant,
}

impl Standing {
    fn is_at_leader(&self) -> bool {
        self.waiter.place.leader == Some(self.node)
    }

    pub(super) fn next_due(&self) -> Instant {
        // Another waiter may have come to the front, which has less time left.
        self.until.min(self.waiter.last_end())
    }
}

// ---- the line

impl Key {
    pub(super) fn line(&mut self) -> Option<&mut Line> {
        self.contention.as_mut()?.line.as_deref_mut()
    }

    /// The slots that this process has or asks for.
    pub(crate) fn busy(&self) -> impl Iterator<Item = u32> {
        let contention = self.contention.iter();
        let lines = contention.filter_map(|contention| contention.line.as_ref());
        lines.flat_map(|line| line.busy.iter().copied())
    }

    /// This process has or asks for all slots of this one's lock.
    pub(crate) fn has_all(&self, permits: u32) -> bool {
        permits > 0 && self.busy().filter(|slot| *slot < permits).count() as u32 == permits
    }

    /// Whether the process has more slots than its share, or less, if it knows.
    fn of_share(&mut self) -> Option<Ordering> {
        let line = self.line()?;
        Some(line.busy.len().cmp(&(line.share? as usize)))
    }

    /// The process has no more slots than it may keep while others wait.
    pub(crate) fn keeps_slots(&mut self) -> bool {
        self.of_share().is_some_and(Ordering::is_le)
    }

    /// One of those who wait here collects slots, and keeps those that it has: they let nobody in.
    fn collects(&self, waiter: &Waiter) -> bool {
        waiter.section.is_part() || self.queue.has_parts()
    }

    /// The process has its share of the slots, and this waiter needs no more: sections of its own let the next ones in.
    // If it were told of each slot, all processes would ask for it: four times as many requests for each section.
    pub(super) fn has_share(&mut self, waiter: &Waiter, now: Instant) -> bool {
        let has_some = self.busy().next().is_some();
        let is_enough = has_some && self.of_share().is_some_and(Ordering::is_ge);
        is_enough && !self.collects(waiter) && waiter.goes_on_waiting(now)
    }

    /// The place in the queue of one who goes away from the front, for the next one.
    pub(super) fn keep_place(&mut self, place: Place) {
        if let Some(line) = self.line() {
            line.place = place;
        }
    }

    /// What one who comes to the front has in the queue.
    pub(super) fn kept_place(&mut self) -> Place {
        self.line()
            .map(|line| mem::take(&mut line.place))
            .unwrap_or_default()
    }

    /// Asks for a slot, or which one to ask for.
    pub(super) fn attempt_slot(&mut self, waiter: Waiter, cx: &mut Cx<'_>) {
        let now = cx.now();
        let rests_until = self.line().and_then(|line| line.rests_until);
        let asks_any = match waiter.lost_attempts {
            0 => !self.is_contested(),
            lost => lost.is_multiple_of(ASKS_ANY_EVERY),
        };
        if waiter.is_late(now) {
            self.back_off_or_refuse(waiter, cx);
        } else if let Some(until) = rests_until.filter(|until| now < *until.min(&waiter.wait_until))
        {
            self.pause_until(waiter, until);
        } else if asks_any {
            self.ask_for_any(waiter, cx);
        } else {
            self.stand(waiter, cx);
        }
    }

    /// A slot that this process neither has nor asks for. Drawn, so that processes that come at once ask for different
    /// ones, and one that gets no slot asks for another one next.
    fn draw_slot(&mut self, permits: u32, cx: &mut Cx<'_>) -> Option<u32> {
        let start = (cx.random() % u128::from(permits)) as u32;
        let slots = (start..start + permits).map(|slot| slot % permits);
        let line = self.line()?;
        let mut others = slots.filter(|slot| !line.busy.contains(slot));
        let first = others.next();
        // The leader may not know yet who has got the one that was lost.
        match first == line.lost {
            true => others.next().or(first),
            false => first,
        }
    }

    /// Asks for any slot.
    fn ask_for_any(&mut self, mut waiter: Waiter, cx: &mut Cx<'_>) {
        match self.draw_slot(waiter.params.permits, cx) {
            Some(slot) => self.take(slot, waiter, cx),
            // This process has all slots itself: only one of its own callers can free one.
            None if waiter.wait_until <= cx.now() => self.back_off_or_refuse(waiter, cx),
            None => {
                self.leave(mem::take(&mut waiter.place), cx);
                self.queue.join(waiter.into());
            }
        }
    }

    fn take(&mut self, slot: u32, mut waiter: Waiter, cx: &mut Cx<'_>) {
        // The place stays with the line: the next caller here goes on with it, or it is given up.
        self.leave(mem::take(&mut waiter.place), cx);
        let losses = self.line().map_or(0, |line| {
            line.busy.insert(slot);
            line.losses
        });
        if losses > 1 {
            self.rest_after(losses, &waiter, cx);
        }
        waiter.lost_slots = losses;
        let waiter = Box::new(waiter);
        self.send(Move::Take { slot, waiter });
    }

    /// Asks the leader which slot is free for this process.
    fn stand(&mut self, mut waiter: Waiter, cx: &mut Cx<'_>) {
        let now = cx.now();
        let patience = |node| waiter.patience(node, cx);
        let leader = cx.nodes.leader(cx.name, patience, now);
        // The queue is at the leader of the line, and all slots share it.
        waiter.follow(leader, cx);
        let waits = waiter.goes_on_waiting(now);
        let ticket = self.ticket(&mut waiter, waits, cx);
        // No node can say which slot is free, but a majority still decides each of them.
        let Some((leader, mut ticket)) = waiter.place.leader.zip(ticket) else {
            return self.ask_for_any(waiter, cx);
        };
        if self.has_share(&waiter, now) {
            // It takes no place.
            (ticket.waited, ticket.lasts) = (Duration::ZERO, Duration::ZERO);
            waiter.place.is_taken = false;
        }
        waiter.place.on_attempt();
        self.stand_at(leader, ticket, waiter, cx);
    }

    /// The leader has no free slot. It may have missed a release, so another node is asked, a different one each time.
    /// That takes down that somebody waits there, and no place.
    fn stand_elsewhere(&mut self, waiter: Waiter, cx: &mut Cx<'_>) {
        let (now, patience) = (cx.now(), cx.nodes.hedge_delay());
        let Place { leader, looks, .. } = waiter.place;
        let others = cx.nodes.able(cx.name, now);
        let others = others.filter(|node| Some(*node) != leader);
        let others = others.filter(|node| !cx.nodes.is_silent(*node, patience, now));
        let others: Vec<NodeId> = others.collect();
        if others.is_empty() {
            return self.back_off_or_refuse(waiter, cx);
        }
        let ticket = Ticket {
            came: 0,
            waited: Duration::ZERO,
            // No place: it only says that somebody waits.
            lasts: TICK,
            grace: Duration::ZERO,
            is_ordered: false,
        };
        self.stand_at(others[looks as usize % others.len()], ticket, waiter, cx);
    }

    fn stand_at(&mut self, node: NodeId, ticket: Ticket, waiter: Waiter, cx: &mut Cx<'_>) {
        let round = cx.new_round();
        let permits = waiter.params.permits;
        let body = Request::Stand(Stand {
            key: Arc::clone(cx.name),
            owner: Owner(u128::from(cx.nodes.process().0) << 64),
            permits,
            // One of its own is free only where the node has lost it.
            start: self.draw_slot(permits, cx).unwrap_or(0),
            needs_several: self.collects(&waiter),
            ticket,
        });
        if !cx.tell(node, Ask::Stand(round), body) {
            return self.ask_for_any(waiter, cx);
        }
        let now = cx.now();
        // As for an attempt that asks one node first.
        let patience = waiter.patience(node, cx);
        let mut until = now.after(patience.min(waiter.params.round_timeout()));
        if !waiter.goes_on_waiting(now) {
            until = until.min(waiter.wait_until.max(now));
        }
        self.front = Front::Standing(Box::new(Standing {
            waiter,
            round,
            node,
            until,
        }));
    }

    /// The node does not reply.
    pub(super) fn advance_standing(&mut self, cx: &mut Cx<'_>) -> bool {
        let is_late = |standing: &Standing| standing.next_due() <= cx.now();
        if !matches!(&self.front, Front::Standing(standing) if is_late(standing)) {
            return false;
        }
        if let Front::Standing(standing) = self.take_front() {
            match standing.is_at_leader() && !standing.waiter.is_late(cx.now()) {
                true => self.ask_for_any(standing.waiter, cx),
                // The leader has said that none is free.
                false => self.back_off_or_refuse(standing.waiter, cx),
            }
        }
        true
    }

    pub(super) fn on_stood(
        &mut self,
        (node, round): (NodeId, RoundId),
        reply: Result<Reply, Verdict>,
        cx: &mut Cx<'_>,
    ) {
        if !matches!(&self.front, Front::Standing(standing) if standing.round == round) {
            return;
        }
        let Front::Standing(standing) = self.take_front() else {
            return;
        };
        let is_leader = standing.is_at_leader();
        let mut waiter = standing.waiter;
        match reply {
            _ if waiter.is_late(cx.now()) => self.back_off_or_refuse(waiter, cx),
            Ok(Reply::Turn { slot }) => {
                // The leader has taken the place away with this reply, so there is none to give up.
                waiter.place.is_taken &= !is_leader;
                self.take_free(slot, waiter, cx);
            }
            // The leader has said that none is free.
            _ if !is_leader => self.back_off_or_refuse(waiter, cx),
            Ok(Reply::Queued(ahead)) if waiter.goes_on_waiting(cx.now()) => {
                waiter.place.on_ahead(ahead.believed(), cx.now());
                // Perhaps the line has got its key by this question.
                waiter.place.disarm_all();
                self.give_way(waiter, cx);
            }
            Ok(Reply::Full {
                remaining,
                ahead,
                is_new,
                share,
            }) => {
                let mut verdicts = vec![Verdict::NotAsked; cx.nodes.count()];
                verdicts[node.0] = Verdict::HeldByAnother { remaining };
                let retry_after = remaining;
                let refusal = Refusal::new(Cause::Contended { retry_after }, verdicts);
                self.contention().last_refusal = Some(refusal);
                if let Some(line) = self.line() {
                    line.share = Some(share);
                }
                if self.has_share(&waiter, cx.now()) {
                    // Those that have less go first.
                    waiter.place.leave(cx);
                }
                waiter.place.on_ahead(ahead.believed(), cx.now());
                if is_new {
                    // The key expires while nobody lets go, and a node does not tell a process of what that process has
                    // changed itself.
                    waiter.place.disarm_all();
                }
                self.on_full(waiter, remaining, cx);
            }
            // The leader is of no help, and a majority decides each slot anyway.
            _ => self.ask_for_any(waiter, cx),
        }
    }

    /// A node says that the slot is free.
    fn take_free(&mut self, slot: u32, waiter: Waiter, cx: &mut Cx<'_>) {
        let is_busy = self.line().is_none_or(|line| line.busy.contains(&slot));
        if is_busy || slot >= waiter.params.permits {
            // The node has lost what this process has there.
            self.rest_after(0, &waiter, cx);
            return self.attempt_slot(waiter, cx);
        }
        self.contention().leave();
        self.take(slot, waiter, cx);
    }

    /// The leader says that no slot is free, and when the first may be.
    fn on_full(&mut self, mut waiter: Waiter, left: Option<Duration>, cx: &mut Cx<'_>) {
        let now = cx.now();
        let waits = waiter.goes_on_waiting(now);
        // A slot that is left to a process may not become its own, and a key that has been written just now may be one of
        // several attempts that exclude each other.
        let young = 2 * cx.nodes.hedge_delay();
        let is_old = |left: Duration| left.saturating_add(young) < waiter.params.key_ttl();
        let is_settled = left.is_some_and(|left| left > Ahead::LONGEST_GRACE && is_old(left));
        if !waits && !is_settled && now < waiter.wait_until {
            self.rest_after(0, &waiter, cx);
            return self.attempt_slot(waiter, cx);
        }
        let doubts = match waits {
            // Once it is worth it.
            true => waiter.place.doubts_leader(now) || waiter.place.looks == 2,
            false => now < waiter.wait_until,
        };
        match doubts {
            true => self.stand_elsewhere(waiter, cx),
            false => self.back_off_or_refuse(waiter, cx),
        }
    }

    /// A waiter comes back that has not got a slot.
    pub(crate) fn on_lost(
        &mut self,
        slot: u32,
        mut waiter: Waiter,
        refusal: Refusal,
        cx: &mut Cx<'_>,
    ) {
        let now = cx.now();
        self.forget(slot);
        let is_outage = refusal.lacks_quorum();
        let waits = waiter.goes_on_waiting(now);
        self.contention().last_refusal = Some(refusal);
        if !is_outage {
            self.contention().is_met(now);
            if waits {
                self.contention().arrive(waiter.since);
            }
        }
        let losses = self.line().map_or(0, |line| {
            (line.losses, line.lost) = (line.losses + 1, Some(slot));
            line.losses
        });
        if is_outage {
            let timeout = waiter.params.round_timeout();
            let can_ask = cx.nodes.has_majority(now);
            let pause = backoff::pause(losses, timeout, can_ask, cx.random());
            self.rest(pause, &waiter, cx);
        }
        let is_over = !waits && (is_outage || now >= waiter.wait_until);
        let is_free = matches!(self.front, Front::Free);
        match (is_over, is_free) {
            (true, false) => self.refuse(&waiter, cx),
            (false, false) => {
                self.look_by(now);
                self.on_return(waiter.into());
            }
            (is_over, true) => {
                waiter.place = self.kept_place();
                match is_over {
                    true => self.back_off_or_refuse(waiter, cx),
                    false => self.attempt_slot(waiter, cx),
                }
            }
        }
    }

    /// Others may have been told of the slots that this process was told of: its callers pause.
    fn rest_after(&mut self, losses: u32, waiter: &Waiter, cx: &mut Cx<'_>) {
        let pause = LOST_PAUSE * (1 << losses.min(3));
        let pause = pause - jitter(pause / 2, cx.random());
        self.rest(pause, waiter, cx);
    }

    fn rest(&mut self, pause: Duration, waiter: &Waiter, cx: &Cx<'_>) {
        let until = pause_within(pause, waiter.wait_until, cx.now());
        if let Some(line) = self.line() {
            line.rests_until = Some(until);
        }
    }

    /// The outage that kept the callers from a slot may be over.
    pub(super) fn end_rest(&mut self) {
        if let Some(line) = self.line() {
            line.rests_until = None;
        }
    }

    /// One who has not got a slot waits on, before all that have called later; or one who may follow in a slot's turn.
    pub(crate) fn on_return(&mut self, mut waiting: Waiting) {
        let front = self.waiter();
        if let Some(front) = front.filter(|front| waiting.rank() < front.rank()) {
            waiting = front.replace(waiting);
        }
        self.queue.join(waiting);
    }

    /// The turn in the slot is over.
    pub(crate) fn on_free(&mut self, slot: u32, was_waited_for: bool, cx: &mut Cx<'_>) {
        self.forget(slot);
        if let Some(line) = self.line() {
            // It was to be had, whatever kept others of this process from one.
            (line.losses, line.lost, line.rests_until) = (0, None, None);
        }
        if was_waited_for {
            self.contention().on_turn_end(cx.now());
        }
        self.look_by(cx.now());
    }

    fn forget(&mut self, slot: u32) {
        if let Some(line) = self.line() {
            line.busy.remove(&slot);
            line.place.disarm_all();
        }
    }

    /// A release by this process has taken its place in the queue, and no node tells of what one has changed oneself.
    pub(crate) fn look_by(&mut self, at: Instant) {
        // Also of one whose question is under way: it is to read the key of the line again.
        if let Some(place) = self.place() {
            place.disarm_all();
        }
        if let Front::BackingOff(backoff) = &mut self.front {
            backoff.ask_by(at);
        }
    }

    /// One who waits here, has asked for the same and has called before takes the place of this waiter.
    pub(crate) fn exchange(&mut self, waiter: &mut Waiter) -> bool {
        let mut first = None;
        if self.waiter().is_none() {
            first = self.queue.pop();
        }
        let mut first = first.map(|first| Waiter::new(first, Place::default()));
        let one = first.as_mut().or_else(|| self.waiter());
        let one = one.filter(|one| one.goes_before(waiter));
        let is_before = one.is_some();
        if let Some(one) = one {
            mem::swap(one, waiter);
            // The place belongs to those who wait at this key, whoever of them is in front.
            mem::swap(&mut one.place, &mut waiter.place);
        }
        if let Some(first) = first {
            self.queue.join(first.into());
        }
        if let Front::Acquiring(attempt) = &mut self.front {
            // Who asks now may have less time left.
            attempt.round.closes_at = attempt.round.closes_at.min(attempt.waiter.last_end());
        }
        is_before
    }

    /// The first who waits, for a slot that this process has. The next one takes the place in the queue.
    pub(crate) fn lend(&mut self, cx: &mut Cx<'_>) -> Option<Waiting> {
        match (self.queue.pop(), self.waiter()) {
            (Some(next), Some(front)) => Some(front.replace(next)),
            // Nobody is left in line: a place that stayed would hold up other processes.
            (None, Some(_)) => self.cancel_front(cx).map(Waiting::from),
            (next, None) => next,
        }
    }
}

// ---- a slot

impl Key {
    pub(super) fn slot(&mut self) -> Option<&mut Slot> {
        self.contention.as_mut()?.slot.as_mut()
    }

    /// A waiter asks for this slot.
    pub(crate) fn on_take(&mut self, number: u32, waiter: Waiter, cx: &mut Cx<'_>) {
        self.contention().slot = Some(Slot {
            number,
            was_waited_for: false,
            is_won: false,
        });
        self.attempt(waiter, cx);
    }

    /// The slot can be given to a caller. Who has called first gets the slot, whoever has asked for it.
    pub(super) fn ask_line(&mut self, waiter: Waiter) {
        if let Some(slot) = self.slot() {
            slot.is_won = true;
        }
        self.send(Move::Won(Box::new(waiter)));
    }

    /// It has been won, and is not given to a caller yet.
    pub(super) fn is_won(&self) -> bool {
        let slot = self.contention.as_ref().and_then(|it| it.slot.as_ref());
        slot.is_some_and(|slot| slot.is_won)
    }

    /// The slot is this waiter's, who waits in line again if it has been lost meanwhile.
    pub(crate) fn on_given(&mut self, waiter: Waiter, cx: &mut Cx<'_>) {
        if let Some(slot) = self.slot() {
            slot.is_won = false;
        }
        match &mut self.front {
            Front::Held(held) => held.start(waiter, cx),
            _ => self.send(Move::Return(waiter.into())),
        }
    }

    /// The attempt has failed.
    pub(super) fn give_back(&mut self, waiter: Waiter, refusal: Refusal) {
        if let Some(slot) = self.contention().slot.take() {
            self.send(Move::Lost {
                slot: slot.number,
                waiter: Box::new(waiter),
                refusal,
            });
        }
    }

    /// The section is the last in a turn that goes on if another one follows: others do not wait for this slot, or it
    /// is one that the process keeps.
    pub(crate) fn passes_on(&mut self, section: SectionId, is_kept: bool, now: Instant) -> bool {
        let Front::Held(held) = &mut self.front else {
            return false;
        };
        if is_kept {
            // Another turn, so that those who wait are heard again.
            held.began = now;
        }
        held.has_only(section) && !held.has_had_its_share(now)
    }

    /// Other processes wait, and go first.
    pub(super) fn on_turn_end(&mut self, now: Instant) {
        match self.slot() {
            Some(slot) => slot.was_waited_for = true,
            None => self.contention().on_turn_end(now),
        }
    }

    /// Nobody steps up by himself: those who wait for a slot do so in line, and there while all slots are taken.
    pub(super) fn awaits_line(&mut self) -> bool {
        if self.slot().is_some() {
            while let Some(waiting) = self.queue.pop() {
                self.send(Move::Return(waiting));
            }
            return true;
        }
        let first = self.queue.first();
        first.is_some_and(|params| self.has_all(params.permits))
    }

    pub(super) fn tell_line(&mut self) {
        let is_free = matches!(self.front, Front::Free);
        let contention = self.contention.as_mut().filter(|_| is_free);
        if let Some(slot) = contention.and_then(|contention| contention.slot.take()) {
            self.send(Move::Free {
                slot: slot.number,
                was_waited_for: slot.was_waited_for,
            });
        }
    }

    pub(super) fn send(&mut self, what: Move) {
        self.contention().moves.push(what);
    }

    /// What the other keys of the lock must get.
    pub(crate) fn take_moves(&mut self) -> Vec<Move> {
        let contention = self.contention.as_mut();
        contention.map_or_else(Vec::new, |contention| mem::take(&mut contention.moves))
    }
}
