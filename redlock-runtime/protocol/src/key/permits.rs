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
//! there are for each process, its *share*, it does so while others wait, too, and it takes no place while it has them:
//! so processes that all have their share leave each other alone. When a slot is released, the node deletes the key of
//! the line, by which those who wait hear of it.

use std::{collections::BTreeSet, mem, time::Duration};

use super::{
    Front, Key,
    cx::Cx,
    queue::Waiting,
    waiting::{Place, TICK, Waiter, pause_within},
};
use crate::{
    action::{Cause, Refusal, Verdict},
    message::{NodeId, Owner, Reply, Request, SectionId, Stand, Ticket},
    purpose::{Ask, RoundId},
    rules::{backoff::jitter, quorum},
    time::Instant,
};

/// The pause before the next question after a slot was lost that was free.
const LOST_PAUSE: Duration = Duration::from_millis(2);

/// It is doubled with every further one, up to eight times as long.
fn pause_after(losses: u32) -> Duration {
    LOST_PAUSE * (1 << losses.min(3))
}

/// One in this number of failed attempts is followed by one for any slot: of keys that nobody comes for, the leader
/// has some that the other nodes lack, and lacks some that they have.
const ASKS_ANY_EVERY: u32 = 2;

/// What a line or a slot knows of the other.
#[derive(Debug)]
pub(super) struct Permits {
    role: Role,
    moves: Vec<Move>,
}

#[derive(Debug)]
enum Role {
    Line(Box<Line>),
    Slot(Slot),
}

#[derive(Debug, Default)]
pub(super) struct Line {
    /// The slots that this process has or asks for.
    busy: BTreeSet<u32>,
    /// See [`Reply::Full`].
    share: u32,
    /// In the queue, while no waiter is at the front.
    place: Place,
    /// The slot that was asked for last: the next question begins behind it, in case it got no slot.
    last: u32,
    /// So many attempts have got no slot since one has.
    losses: u32,
    /// The last one ended while the next caller was asking which slot is free.
    is_lost: bool,
    /// See [`Waiter::split_slots`], for whichever caller asks next.
    split_slots: u32,
}

#[derive(Debug)]
pub(super) struct Slot {
    number: u32,
    /// A waiter has been sent here, and the line has not heard that the slot is free again.
    is_taken: bool,
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
}

/// A node is asked for a free slot: the leader, or then another one that may know better.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) waiter: Waiter,
    round: RoundId,
    /// That node, behind those that had none.
    asked: Vec<NodeId>,
    /// It is not waited for any longer.
    until: Instant,
}

impl Standing {
    /// Another waiter goes on in its place. The one before.
    fn replace(&mut self, next: Waiting) -> Waiting {
        let before = self.waiter.replace(next);
        // The new one may have less time left than the one before.
        self.until = self.until.min(self.waiter.last_end());
        before
    }

    pub(super) const fn next_due(&self) -> Instant {
        self.until
    }
}

impl Permits {
    const fn new(role: Role) -> Self {
        let moves = Vec::new();
        Self { role, moves }
    }

    const fn line(&mut self) -> Option<&mut Line> {
        match &mut self.role {
            Role::Line(line) => Some(line),
            Role::Slot(_) => None,
        }
    }

    const fn slot(&mut self) -> Option<&mut Slot> {
        match &mut self.role {
            Role::Slot(slot) => Some(slot),
            Role::Line(_) => None,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        match &self.role {
            Role::Line(line) => line.busy.is_empty(),
            Role::Slot(slot) => !slot.is_taken,
        }
    }
}

// ---- the line

impl Key {
    pub(super) fn permits(&self) -> Option<&Permits> {
        self.contention.as_ref()?.permits.as_ref()
    }

    fn permits_mut(&mut self) -> Option<&mut Permits> {
        self.contention.as_mut()?.permits.as_mut()
    }

    pub(super) fn line(&mut self) -> Option<&mut Line> {
        self.permits_mut()?.line()
    }

    /// Callers wait here for one of its slots.
    pub(super) fn become_line(&mut self) {
        let new = || Permits::new(Role::Line(Box::default()));
        self.contention().permits.get_or_insert_with(new);
    }

    /// This process has or asks for all slots of this one's lock.
    pub(crate) fn has_all(&self, permits: u32) -> bool {
        let role = self.permits().map(|permits| &permits.role);
        matches!(role, Some(Role::Line(line)) if line.busy.range(..permits).count() as u32 == permits)
    }

    /// The process has no more slots than it may keep while others wait.
    pub(crate) fn keeps_slots(&mut self) -> bool {
        let own = self.own_slots();
        self.line().is_some_and(|line| own <= line.share)
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
        if waiter.is_late(cx.now()) {
            self.back_off_or_refuse(waiter, cx);
        } else if waiter.lost_attempts == 0 && !self.is_contested() {
            self.ask_for_any(waiter, cx);
        } else {
            self.stand(waiter, cx);
        }
    }

    /// Asks for any slot.
    fn ask_for_any(&mut self, waiter: Waiter, cx: &mut Cx<'_>) {
        let permits = waiter.params.permits;
        // Drawn, so that processes that come at once ask for different slots.
        let start = (cx.random() % u128::from(permits)) as u32;
        let mut slots = (start..start + permits).map(|slot| slot % permits);
        let slot = self
            .line()
            .and_then(|line| slots.find(|slot| !line.busy.contains(slot)));
        match slot {
            Some(slot) => self.take(slot, waiter, cx),
            // This process has all slots itself: only one of its own callers can free one.
            None if waiter.wait_until <= cx.now() => self.back_off_or_refuse(waiter, cx),
            None => {
                let mut waiter = waiter;
                self.leave(mem::take(&mut waiter.place), cx);
                self.queue.join(waiter.into());
            }
        }
    }

    fn take(&mut self, slot: u32, mut waiter: Waiter, cx: &mut Cx<'_>) {
        // The place stays with the line: the next caller here goes on with it, or it is given up.
        self.leave(mem::take(&mut waiter.place), cx);
        if let Some(Permits {
            role: Role::Line(line),
            moves,
        }) = self.permits_mut()
        {
            line.busy.insert(slot);
            line.last = slot;
            waiter.split_slots = line.split_slots;
            let waiter = Box::new(waiter);
            moves.push(Move::Take { slot, waiter });
        }
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
        let Some((leader, ticket)) = waiter.place.leader.zip(ticket) else {
            return self.ask_for_any(waiter, cx);
        };
        waiter.place.on_attempt();
        self.stand_at(vec![leader], ticket, waiter, cx);
    }

    /// No slot is free at those that were asked. They may have missed a release, so another one is asked; a majority
    /// knows. It takes down that somebody waits there, and no place.
    fn stand_elsewhere(&mut self, mut asked: Vec<NodeId>, mut waiter: Waiter, cx: &mut Cx<'_>) {
        let (now, patience) = (cx.now(), cx.nodes.hedge_delay());
        let is_enough = asked.len() >= quorum::majority(cx.nodes.count());
        let is_next = |node: &NodeId| {
            !is_enough && !asked.contains(node) && !cx.nodes.is_silent(*node, patience, now)
        };
        let other = cx.nodes.able(cx.name, now).find(is_next);
        let Some(node) = other else {
            waiter.place.free_elsewhere = None;
            return self.back_off_or_refuse(waiter, cx);
        };
        // Kept, so that each node is asked once and a majority is the end.
        asked.push(node);
        let ticket = Ticket {
            came: 0,
            waited: Duration::ZERO,
            // No place: it only says that somebody waits.
            lasts: TICK,
            grace: Duration::ZERO,
            is_ordered: false,
        };
        self.stand_at(asked, ticket, waiter, cx);
    }

    fn stand_at(&mut self, asked: Vec<NodeId>, ticket: Ticket, waiter: Waiter, cx: &mut Cx<'_>) {
        let round = cx.new_round();
        let permits = waiter.params.permits;
        // Behind the last one, in case that brought no slot. One of its own is free only where the node has lost it.
        let start = self.line().and_then(|line| {
            let mut others = (1..=permits).map(|by| line.last.wrapping_add(by) % permits);
            others.find(|slot| !line.busy.contains(slot))
        });
        let body = Request::Stand(Stand {
            key: std::sync::Arc::clone(cx.name),
            owner: Owner(u128::from(cx.nodes.process().0) << 64),
            permits,
            start: start.unwrap_or(0),
            own: (!waiter.section.is_part()).then(|| self.own_slots()),
            ticket,
        });
        let told = asked.last().copied();
        let told = told.filter(|&node| cx.tell(node, Ask::Stand(round), body));
        let Some(node) = told else {
            return self.ask_for_any(waiter, cx);
        };
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
            asked,
            until,
        }));
    }

    /// The node does not reply.
    pub(super) fn advance_standing(&mut self, cx: &mut Cx<'_>) -> bool {
        let is_late = |standing: &Standing| standing.until <= cx.now();
        if !matches!(&self.front, Front::Standing(standing) if is_late(standing)) {
            return false;
        }
        if let Front::Standing(standing) = self.take_front() {
            let Standing { waiter, asked, .. } = *standing;
            match waiter.is_late(cx.now()) {
                true => self.back_off_or_refuse(waiter, cx),
                // The leader has said that none is free; the next node may know better.
                false if asked.len() > 1 => self.stand_elsewhere(asked, waiter, cx),
                false => self.ask_for_any(waiter, cx),
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
        let Standing {
            mut waiter, asked, ..
        } = *standing;
        match reply {
            _ if waiter.is_late(cx.now()) => self.back_off_or_refuse(waiter, cx),
            reply if asked.len() > 1 => self.on_stood_elsewhere(asked, waiter, reply, cx),
            Ok(Reply::Turn { slot }) => {
                // The node has taken the place away with this reply, so there is none to give up.
                waiter.place.is_taken = false;
                self.take_free(slot, waiter, cx);
            }
            Ok(Reply::Queued(ahead)) if waiter.goes_on_waiting(cx.now()) => {
                waiter.place.on_ahead(ahead.believed(), cx.now());
                // Perhaps the line has got its key by this question.
                waiter.place.disarm_all();
                self.give_way(waiter, cx);
            }
            Ok(Reply::Full {
                slot,
                remaining,
                ahead,
                is_new,
                share,
            }) => {
                let mut verdicts = vec![Verdict::NotAsked; cx.nodes.count()];
                verdicts[node.0] = Verdict::HeldByAnother { remaining };
                self.contention().last_refusal = Refusal {
                    cause: Cause::Contended {
                        retry_after: remaining,
                    },
                    verdicts,
                    key: None,
                    attempts: 0,
                };
                waiter.place.has_share = self.has_share(&waiter, share, cx.now());
                waiter.place.is_taken &= !waiter.place.has_share;
                waiter.place.held_at = asked;
                waiter.place.on_ahead(ahead.believed(), cx.now());
                if is_new {
                    // The key expires while nobody lets go, and a node does not tell a process of what that process has
                    // changed itself.
                    waiter.place.disarm_all();
                }
                self.on_full(waiter, slot.and(remaining), cx);
            }
            // The leader is of no help, and a majority decides each slot anyway.
            _ => self.ask_for_any(waiter, cx),
        }
    }

    /// How many slots the process has or asks for.
    fn own_slots(&mut self) -> u32 {
        self.line().map_or(0, |line| line.busy.len() as u32)
    }

    /// The process has as many slots as the leader says are its share, and this waiter needs no more.
    fn has_share(&mut self, waiter: &Waiter, share: u32, now: Instant) -> bool {
        if let Some(line) = self.line() {
            line.share = share;
        }
        let own = self.own_slots();
        own > 0 && own >= share && !waiter.section.is_part() && waiter.goes_on_waiting(now)
    }

    fn on_stood_elsewhere(
        &mut self,
        asked: Vec<NodeId>,
        mut waiter: Waiter,
        reply: Result<Reply, Verdict>,
        cx: &mut Cx<'_>,
    ) {
        let (now, patience) = (cx.now(), cx.nodes.hedge_delay());
        match reply {
            Ok(Reply::Turn { slot }) => {
                if !waiter.place.is_free_elsewhere(slot, patience, now) {
                    // Not deaf: a slow node may have made this a long time, and the leader tells of others.
                    return self.back_off(waiter, cx);
                }
                waiter.asks_all = true;
                self.take_free(slot, waiter, cx);
            }
            reply => {
                if let Ok(Reply::Full {
                    remaining: Some(left),
                    ..
                }) = reply
                {
                    // A key expires without notice. If only the leader still has the key of a dead owner, the slot
                    // would stand free until the look that asks all nodes.
                    waiter.place.doubts_by(now.after(left).after(TICK));
                }
                self.stand_elsewhere(asked, waiter, cx);
            }
        }
    }

    /// A node says that the slot is free.
    fn take_free(&mut self, slot: u32, mut waiter: Waiter, cx: &mut Cx<'_>) {
        let is_outage = self.last_refusal().lacks_quorum();
        let permits = waiter.params.permits;
        let is_in_vain = |line: &&mut Line| line.is_lost && (is_outage || line.losses >= permits);
        // Callers that take turns at asking would ask as often as nodes reply, for as long as this goes on.
        if let Some(line) = self.line().filter(is_in_vain) {
            line.is_lost = false;
            waiter.lost_attempts = waiter.lost_attempts.max(line.losses / permits);
            return self.pause_after_loss(waiter, cx);
        }
        let is_busy = self.line().is_none_or(|line| line.busy.contains(&slot));
        if is_busy || slot >= permits {
            // The node has lost what this process has there.
            if let Some(line) = self.line() {
                line.last = slot;
            }
            return self.pause_after_loss(waiter, cx);
        }
        self.contention().leave();
        self.take(slot, waiter, cx);
    }

    /// The leader says that no slot is free, and how long the key of the first lives that will be.
    fn on_full(&mut self, mut waiter: Waiter, left: Option<Duration>, cx: &mut Cx<'_>) {
        let now = cx.now();
        let waits = waiter.goes_on_waiting(now);
        // A key that has been written just now may be one of several attempts that exclude each other, and a slot
        // that is left to a process may not become its own.
        let young = 2 * cx.nodes.hedge_delay();
        let is_old = |left: Duration| left.saturating_add(young) < waiter.params.key_ttl();
        let is_settled = left.is_some_and(is_old);
        if !waits && !is_settled && now < waiter.wait_until {
            return self.pause_after_loss(waiter, cx);
        }
        let doubts = match waits {
            // Once it is worth it. The others also say when a slot of theirs expires.
            true => {
                let Place {
                    looks,
                    free_elsewhere,
                    ..
                } = waiter.place;
                waiter.place.doubts_leader(now) || looks == 2 || free_elsewhere.is_some()
            }
            false => now < waiter.wait_until,
        };
        if doubts {
            let asked = waiter.place.held_at.clone();
            return self.stand_elsewhere(asked, waiter, cx);
        }
        self.back_off_or_refuse(waiter, cx);
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
        if let Some(line) = self.line() {
            line.split_slots = waiter.split_slots;
        }
        let is_outage = refusal.lacks_quorum();
        let waits = waiter.goes_on_waiting(now);
        self.contention().last_refusal = refusal;
        if !is_outage {
            self.contention().is_met(now);
        }
        if waits && !is_outage {
            self.contention().arrive(waiter.since);
        }
        let asked_all = mem::take(&mut waiter.asks_all);
        let is_over = !waits && (is_outage || asked_all || now >= waiter.wait_until);
        if !matches!(self.front, Front::Free) {
            if is_over {
                return self.refuse(&waiter, cx);
            }
            let permits = waiter.params.permits;
            let losses = self.line().map_or(0, |line| {
                (line.losses, line.is_lost) = (line.losses + 1, true);
                line.losses / permits
            });
            // Who has met an outage leaves the one at the front to its pause, unless that waits to be told: it is not told
            // of this release.
            if !is_outage || self.place().is_some_and(|place| place.listens()) {
                self.look_by(now.after(pause_after(losses)));
            }
            return self.on_return(waiter.into());
        }
        waiter.place = self.kept_place();
        if is_outage || is_over {
            self.back_off_or_refuse(waiter, cx);
        } else if asked_all {
            self.back_off(waiter, cx);
        } else if waiter.lost_attempts == 1 {
            self.stand(waiter, cx);
        } else if waiter.lost_attempts.is_multiple_of(ASKS_ANY_EVERY) {
            self.ask_for_any(waiter, cx);
        } else {
            self.pause_after_loss(waiter, cx);
        }
    }

    /// Asks again in a moment: others have been told of the same slot.
    fn pause_after_loss(&mut self, waiter: Waiter, cx: &mut Cx<'_>) {
        let pause = jitter(pause_after(waiter.lost_attempts), cx.random());
        let until = pause_within(pause, waiter.wait_until, cx.now());
        self.pause_until(waiter, until);
    }

    /// One who has not got a slot waits on, before all that have called later; or one who may follow in a slot's turn.
    pub(crate) fn on_return(&mut self, mut waiting: Waiting) {
        match &mut self.front {
            Front::BackingOff(backoff) if waiting.rank() < backoff.waiter.rank() => {
                waiting = backoff.replace(waiting);
            }
            Front::Standing(standing) if waiting.rank() < standing.waiter.rank() => {
                waiting = standing.replace(waiting);
            }
            _ => {}
        }
        self.queue.join(waiting);
    }

    /// The turn in the slot is over.
    pub(crate) fn on_free(&mut self, slot: u32, was_waited_for: bool, cx: &mut Cx<'_>) {
        self.forget(slot);
        if let Some(line) = self.line() {
            (line.losses, line.split_slots) = (0, 0);
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
    fn look_by(&mut self, at: Instant) {
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
        let end = match &self.front {
            Front::BackingOff(_) => |waiter: &Waiter| waiter.wait_until,
            _ => Waiter::last_end,
        };
        let front = match &mut self.front {
            Front::Acquiring(attempt) => Some((&mut attempt.waiter, &mut attempt.round.closes_at)),
            Front::BackingOff(backoff) => Some((&mut backoff.waiter, &mut backoff.until)),
            Front::Standing(standing) => Some((&mut standing.waiter, &mut standing.until)),
            Front::Free | Front::Held(_) => None,
        };
        if let Some((front, until)) = front {
            let is_before = front.goes_before(waiter);
            if is_before {
                mem::swap(front, waiter);
                // The place belongs to those who wait at this key, whoever of them is in front.
                mem::swap(&mut front.place, &mut waiter.place);
                *until = end(front).min(*until);
            }
            return is_before;
        }
        let Some(first) = self.queue.pop() else {
            return false;
        };
        let mut first = Waiter::new(first, Place::default());
        let is_before = first.goes_before(waiter);
        if is_before {
            mem::swap(&mut first, waiter);
        }
        self.queue.join(first.into());
        is_before
    }

    /// The slots that this process has or asks for.
    pub(crate) fn busy(&self) -> Vec<u32> {
        match self.permits().map(|permits| &permits.role) {
            Some(Role::Line(line)) => line.busy.iter().copied().collect(),
            _ => Vec::new(),
        }
    }

    /// The first who waits, for a slot that this process has. The next one takes the place in the queue.
    pub(crate) fn lend(&mut self, cx: &mut Cx<'_>) -> Option<Waiting> {
        let next = self.queue.pop();
        match (&mut self.front, next) {
            (Front::BackingOff(backoff), Some(next)) => return Some(backoff.replace(next)),
            (Front::Standing(standing), Some(next)) => return Some(standing.replace(next)),
            (Front::BackingOff(_) | Front::Standing(_), None) => {}
            (_, next) => return next,
        }
        let mut waiter = match self.take_front() {
            Front::BackingOff(backoff) => backoff.waiter,
            Front::Standing(standing) => standing.waiter,
            front => {
                self.front = front;
                return None;
            }
        };
        // Nobody is left in line: a place that stayed would hold up other processes.
        self.leave(mem::take(&mut waiter.place), cx);
        Some(waiter.into())
    }
}

// ---- a slot

impl Key {
    pub(super) fn slot(&mut self) -> Option<&mut Slot> {
        self.permits_mut()?.slot()
    }

    /// A waiter asks for this slot.
    pub(crate) fn on_take(&mut self, number: u32, waiter: Waiter, cx: &mut Cx<'_>) {
        let role = Role::Slot(Slot {
            number,
            is_taken: true,
            was_waited_for: false,
            is_won: false,
        });
        self.contention().permits = Some(Permits::new(role));
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
        let role = self.permits().map(|permits| &permits.role);
        matches!(role, Some(Role::Slot(slot)) if slot.is_won)
    }

    /// The slot is this waiter's. Gives it back if the slot has been lost meanwhile.
    pub(crate) fn on_given(&mut self, waiter: Waiter, cx: &mut Cx<'_>) -> Option<Waiter> {
        if let Some(slot) = self.slot() {
            slot.is_won = false;
        }
        let Front::Held(held) = &mut self.front else {
            return Some(waiter);
        };
        held.start(waiter, cx);
        held.shore_up(cx);
        None
    }

    /// The attempt has failed.
    pub(super) fn give_back(&mut self, waiter: Waiter, refusal: Refusal) {
        let Some(slot) = self.slot() else {
            return;
        };
        slot.is_taken = false;
        let (slot, waiter) = (slot.number, Box::new(waiter));
        self.send(Move::Lost {
            slot,
            waiter,
            refusal,
        });
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
        if let Some(slot) = self.slot().filter(|slot| is_free && slot.is_taken) {
            slot.is_taken = false;
            let (slot, was_waited_for) = (slot.number, mem::take(&mut slot.was_waited_for));
            self.send(Move::Free {
                slot,
                was_waited_for,
            });
        }
    }

    fn send(&mut self, what: Move) {
        if let Some(permits) = self.permits_mut() {
            permits.moves.push(what);
        }
    }

    /// What the other keys of the lock must get.
    pub(crate) fn take_moves(&mut self) -> Vec<Move> {
        self.permits_mut()
            .map(|permits| mem::take(&mut permits.moves))
            .unwrap_or_default()
    }
}
