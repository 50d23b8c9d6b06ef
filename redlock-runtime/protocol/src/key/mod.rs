//! Everything about one key in this process: who waits, who holds, what is owed to the nodes.
//!
//! At any time one of five things is at the *front*:
//! - nothing (`Free`),
//! - an attempt of the first waiter to get the lock (`Acquiring`, in `attempt`),
//! - its question for a free slot, if the lock has permits (`Standing`, in `permits`),
//! - its pause between two attempts (`BackingOff`, in `waiting`),
//! - the turn of this process, with or without a section in it (`Held`, in `turn`).
//!
//! Every event notes what it says and then calls [`Key::advance`], which goes from one state to the
//! next for as long as there is something to do. Time is one such event: nothing is done *because* a
//! timer has woken, but because the clock says so.

mod asking;
mod attempt;
mod claim;
mod contention;
mod cx;
mod few;
mod member;
mod permits;
mod presence;
mod question;
mod queue;
mod refresh;
mod release;
mod round;
mod section;
mod turn;
mod waiting;

use std::{iter, sync::Arc};

use self::{
    attempt::Attempt,
    claim::Claim,
    contention::Contention,
    few::Few,
    permits::Standing,
    queue::Queue,
    release::{Releases, Reports},
    round::Round,
    section::{Note, Over, Section},
    turn::Held,
    waiting::Backoff,
};
pub(crate) use self::{cx::Cx, permits::Move, queue::Waiting, waiting::Waiter};
use crate::{
    action::{Answer, Cause, Loss, Refusal, Release, Verdict},
    message::{Mode, NodeId, Owner, Reply, RequestId, SectionId},
    node::Nodes,
    purpose::Ask,
    rules::{
        token::Token,
        validity::{LeaseParams, LockParams},
    },
    time::Instant,
};

/// One key.
#[derive(Debug, Default)]
pub(crate) struct Key {
    front: Front,
    queue: Queue,
    contention: Option<Box<Contention>>,
    /// Sections that are over and have not let go.
    over: Few<Over>,
    /// Of turns that have ended. Nothing is released before those of its sections have let go, or their time is over.
    kept: Few<Claim>,
    releases: Releases,
}

#[derive(Debug, Default)]
#[allow(
    clippy::large_enum_variant,
    reason = "there is one for each key that is held, and what is larger than a turn is in boxes"
)]
enum Front {
    #[default]
    Free,
    Acquiring(Box<Attempt>),
    Standing(Box<Standing>),
    BackingOff(Box<Backoff>),
    Held(Held),
}

impl Key {
    /// Nothing is left of it.
    pub(crate) fn is_idle(&self) -> bool {
        let is_free = matches!(self.front, Front::Free) && self.remembers_until().is_none();
        let contention = self.contention.as_ref();
        is_free
            && self.queue.is_empty()
            && self.over.is_empty()
            && self.releases.are_done()
            && contention.is_none_or(|contention| contention.slot.is_none())
            && self.busy().next().is_none()
    }

    /// Nobody here has it or asks for it.
    pub(crate) const fn is_free(&self) -> bool {
        matches!(self.front, Front::Free)
    }

    pub(crate) fn next_due(&self, now: Instant) -> Option<Instant> {
        let front = match &self.front {
            Front::Free => self.remembers_until(),
            Front::Acquiring(attempt) => Some(attempt.next_due(now)),
            Front::Standing(standing) => Some(standing.next_due()),
            Front::BackingOff(backoff) => Some(backoff.next_due()),
            Front::Held(held) => held.next_due(self.queue.first(), now),
        };
        let kept = self.kept.iter();
        let kept = kept.filter_map(|claim| self.kept_until(claim.owner)).min();
        let dues = [front, self.queue.next_due(), self.releases.next_due(), kept];
        dues.into_iter().flatten().min()
    }

    /// The releases that a connected node has not confirmed.
    pub(crate) fn unconfirmed_releases(&self, nodes: &Nodes) -> usize {
        self.releases.unconfirmed(nodes)
    }

    /// Some node is not known to have it, though it has been held for longer than a short turn.
    pub(crate) fn is_under_replicated(&self, nodes: &Nodes) -> bool {
        matches!(&self.front, Front::Held(held) if held.is_under_replicated(nodes))
    }

    // ---- callers

    /// Goes before all that wait here and have called later.
    pub(crate) fn on_ask(
        &mut self,
        section: SectionId,
        params: Arc<LockParams>,
        since: Instant,
        cx: &mut Cx<'_>,
    ) {
        let now = cx.now();
        let mut wait = params.wait;
        let is_first = matches!(self.front, Front::Free) && self.queue.is_empty();
        if params.permits > 0 {
            self.contention().line.get_or_insert_default();
        }
        if wait.is_zero() && !is_first {
            let is_asked_for = matches!(self.front, Front::Standing(_));
            // It would only wait behind the others: without `wait`, that is a refusal.
            if !self.is_for_readers(&params) && !is_asked_for {
                let refusal = self.refusal_in_queue(now);
                return cx.answer(section, Answer::Refused(refusal));
            }
        }
        if wait.is_zero() {
            // Whatever follows is part of its one attempt, also if that is the round of those that it joins.
            wait = params.round_timeout();
        }
        let waiting = Waiting {
            section,
            params,
            since,
            wait_until: now.after(wait),
        };
        if is_first {
            // Also a waiter that does not wait has its attempt.
            self.bring_forward(waiting, cx);
        } else {
            self.queue.join(waiting);
        }
    }

    /// The holder wants a fresh lease, and the nodes are to give no token up to this one any more. For a lease that
    /// is no longer, a round that is under way serves.
    pub(crate) fn on_extend(
        &mut self,
        id: SectionId,
        lease: Option<LeaseParams>,
        reach: Token,
        now: Instant,
    ) {
        if let Some(section) = self.section(id) {
            // A later, lower wish must not take back what another one has asked for.
            section.raise_to = section.raise_to.max(reach);
            section.want(lease, now);
        }
    }

    /// The holder has the lock alone, and shares it from now on, whatever the nodes reply: of those that do not reply,
    /// some may let readers in. The round that tells them lets the lease begin anew, too.
    pub(crate) fn on_share(&mut self, id: SectionId, now: Instant) {
        if let Some(held) = self.held_by(id) {
            // Before the round: from now on, the release must fit what any node may have.
            held.claim.mode = Mode::Shared;
            if let Some(section) = held.section(id) {
                section.share(now);
            }
        }
    }

    /// What the holder says to those who look at the lock. The nodes keep it under the owner of the turn, so the
    /// next section has another turn.
    pub(crate) fn on_note(&mut self, id: SectionId, text: Arc<str>) {
        let Some(held) = self.held_by(id).filter(|held| !held.is_shared()) else {
            return;
        };
        // The value belongs to this holder, and must not stand there for the next one.
        held.claim.is_single = true;
        if let Some(section) = held.section(id) {
            let is_asked = false;
            section.note = Some(Box::new(Note { text, is_asked }));
        }
    }

    /// The caller is done, whatever became of its section.
    pub(crate) fn on_end(&mut self, section: SectionId, report: bool, cx: &mut Cx<'_>) {
        let release = if self.over.take(|over| over.id == section).is_some() {
            Some(Release::AlreadyExpired)
        } else if let Some(held) = self.held_by(section) {
            held.on_end(section, report, cx)
        } else {
            // What it has asked for may be granted yet, so it is released.
            if self.front_waiter() == Some(section) {
                self.cancel_front(cx);
            }
            self.queue.leave(section);
            Some(Release::Unknown)
        };
        if let Some(release) = release.filter(|_| report) {
            cx.answer(section, Answer::Released(release));
        }
    }

    /// Nothing new is taken on. Holders go on, unless they are to be aborted.
    pub(crate) fn stop(&mut self, abort_holders: bool, cx: &mut Cx<'_>) {
        let first = self.cancel_front(cx).map(|waiter| waiter.section);
        let queue = &mut self.queue;
        let others = iter::from_fn(|| queue.pop().map(|waiter| waiter.section));
        for section in first.into_iter().chain(others) {
            let refusal = Refusal::without_verdicts(Cause::Stopped);
            cx.answer(section, Answer::Refused(refusal));
        }
        if let Front::Held(held) = &self.front
            && !held.sections.is_empty()
            && abort_holders
        {
            self.end_under_holder(Loss::Stopped, cx);
        }
    }

    // ---- nodes

    pub(crate) fn on_reply(
        &mut self,
        (node, request): (NodeId, RequestId),
        ask: Ask,
        reply: Result<Reply, Verdict>,
        cx: &mut Cx<'_>,
    ) {
        let now = cx.now();
        // First what the node may have: that counts for the release, whether or not a round is open.
        let claim = ask.owner().and_then(|owner| self.claim_of(owner));
        let mut lead = None;
        match (claim, &reply) {
            (Some(claim), Ok(reply)) => {
                lead = claim.on_reply((node, request), ask, reply, now);
                claim.watch_again(node, ask, reply, cx);
            }
            // The turn is over: the way to the leader is longer than its sections. Others wait all the same.
            (None, Ok(reply)) if reply.names_others() => self.contention().is_met(now),
            _ => {}
        }
        // Before the vote is counted: it may be of this very round.
        if let Some(by) = lead {
            cx.nodes.suspend(node, by, cx.out);
        }
        match ask {
            Ask::Acquire(id, _) | Ask::Extend(id, _) => {
                if let Some((round, claim)) = self.round().filter(|(round, _)| round.id == id) {
                    round.on_reply(node, reply, lead, claim, cx);
                }
            }
            Ask::PutBack(owner) => {
                if let Front::Held(held) = &mut self.front
                    && held.claim.owner == owner
                {
                    held.on_put_back(node, reply, cx);
                }
            }
            Ask::Watch(owner) => {
                if let Some(claim) = self.claim_of(owner) {
                    claim.on_watched(node, cx);
                }
            }
            Ask::Await => self.on_awaited(node, reply.ok(), cx),
            Ask::Stand(round) => self.on_stood((node, round), reply, cx),
            Ask::Release(owner) => self.releases.on_reply((node, owner), reply.ok(), cx),
        }
    }

    /// A node says that the key may have changed.
    pub(crate) fn on_changed(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        match &mut self.front {
            Front::Held(held) => held.on_changed(node, cx),
            _ => self.on_told(node, cx),
        }
    }

    /// A connection is up. It tells of nothing that was read on the one before.
    pub(crate) fn on_connected(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        self.releases.on_connected(node, cx);
        match &mut self.front {
            Front::Held(held) if held.claim.is_watched => held.claim.watch(node, cx),
            _ => self.on_deaf(node, cx),
        }
    }

    /// It is known whether a node votes.
    pub(crate) fn on_settled(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        if let Some((round, claim)) = self.round() {
            round.on_settled(node, claim, cx);
        }
        let can_ask = cx.nodes.is_up(node) && cx.nodes.has_majority(cx.now());
        let lacks_quorum = self.last_refusal().lacks_quorum();
        if can_ask {
            self.end_rest();
        }
        match &mut self.front {
            Front::Held(held) => held.on_settled(node, cx),
            // The pause was for an outage, which this node may have ended.
            Front::BackingOff(_) if lacks_quorum && can_ask => self.retry_now(cx),
            _ if !cx.nodes.is_up(node) => self.on_deaf(node, cx),
            _ => {}
        }
    }

    // ---- going on

    /// Goes from state to state for as long as there is something to do.
    pub(crate) fn advance(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        // First what is owed, and then who waits: the next attempt must come behind the releases.
        self.release_kept(cx);
        self.releases.advance(cx);
        if let Some(contention) = &mut self.contention {
            contention.advance(now);
        }
        // Before the front: a caller that has stopped waiting must not be given the lock.
        while let Some(late) = self.queue.pop_late(now) {
            let refusal = self.refusal_in_queue(now);
            cx.answer(late.section, Answer::Refused(refusal));
        }
        while match &self.front {
            Front::Free => self.step_up(cx),
            Front::Acquiring(_) => self.advance_attempt(cx),
            Front::Standing(_) => self.advance_standing(cx),
            Front::BackingOff(_) => self.advance_backoff(cx),
            Front::Held(_) => self.advance_held(cx),
        } {}
        self.tell_line();
    }

    /// Lets the first waiter come to the front. False if there is none.
    fn step_up(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.awaits_line() {
            return false;
        }
        let first = self.queue.pop();
        if let (None, Some(contention)) = (&first, &mut self.contention) {
            // Nobody here waits any more, so the process gives up its rank among the others.
            contention.leave();
        }
        first.map(|first| self.bring_forward(first, cx)).is_some()
    }

    fn bring_forward(&mut self, first: Waiting, cx: &mut Cx<'_>) {
        let place = self.kept_place();
        let waiter = Waiter::new(first, place);
        match self.stand_back_until() {
            Some(until) if !waiter.params.wait.is_zero() => self.pause_until(waiter, until),
            _ => self.attempt(waiter, cx),
        }
    }

    /// Ends all sections under their holders, and with them the turn. The next waiter goes on: the
    /// nodes decide when.
    fn end_under_holder(&mut self, loss: Loss, cx: &mut Cx<'_>) {
        let Front::Held(mut held) = self.take_front() else {
            return;
        };
        for section in held.sections.drain(..) {
            cx.answer(section.id, Answer::Over(loss.clone()));
            // Told, but not gone: its body may still run, on this thread or another.
            self.over.push(section.over(held.claim.owner));
        }
        self.let_go(held, cx);
    }

    /// Releases what the turn has on the nodes. Nothing of it before those of its sections that are over have
    /// let go.
    fn let_go(&mut self, mut held: Held, cx: &mut Cx<'_>) {
        let claim = held.claim;
        if self.kept_until(claim.owner) <= Some(cx.now()) {
            return self.releases.begin(claim, held.reports, cx);
        }
        let release = match claim.is_gone() {
            true => Release::AlreadyExpired,
            false => Release::Unknown,
        };
        // The keys wait for a section that may never let go. These callers must not.
        held.reports.answer_all(release, cx);
        self.kept.push(claim);
    }

    /// Sections of this turn are over and have not let go: when the keys of the last would have expired.
    fn kept_until(&self, owner: Owner) -> Option<Instant> {
        let over = self.over.iter().filter(|over| over.owner == owner);
        over.map(|over| over.until).max()
    }

    /// Nobody works under these keys any more; or others have let them live for longer than those had asked for that
    /// have not let go. That must keep nobody out.
    fn release_kept(&mut self, cx: &mut Cx<'_>) {
        let (over, now) = (&self.over, cx.now());
        let is_free = |claim: &mut Claim| {
            let keeps = |over: &Over| over.owner == claim.owner && over.until > now;
            !over.iter().any(keeps)
        };
        for claim in self.kept.extract(is_free) {
            self.releases.begin(claim, Reports::default(), cx);
            // The nodes may be free of them a round trip later, and tell this process neither that nor what follows.
            if let Some(place) = self.place() {
                place.disarm_all();
            }
            self.send(Move::Released);
            self.retry_now(cx);
        }
    }

    /// Whether all that are before this waiter share the key with it, or are about to.
    fn is_for_readers(&self, params: &LockParams) -> bool {
        let front = match &self.front {
            Front::Held(held) => held.is_shared(),
            Front::Acquiring(attempt) => attempt.waiter.params.mode == Mode::Shared,
            Front::Free | Front::Standing(_) | Front::BackingOff(_) => false,
        };
        front && self.queue.is_of_readers() && params.mode == Mode::Shared
    }

    /// The refusal of a waiter that never gets to ask the nodes, because another section of this process
    /// is in front: the lock is held, or what keeps that section from holding it.
    pub(crate) fn refusal_in_queue(&self, now: Instant) -> Refusal {
        if let Front::Held(held) = &self.front {
            let ends = held.sections.iter().map(|section| section.deadline);
            let retry_after = ends.max().map(|deadline| deadline.since(now));
            return Refusal::without_verdicts(Cause::Contended { retry_after });
        }
        self.last_refusal().clone()
    }

    // ---- looking things up

    /// Takes what is at the front. Nothing is, then.
    fn take_front(&mut self) -> Front {
        std::mem::take(&mut self.front)
    }

    /// All that wait for it or have it, also those that are over and have not let go.
    pub(crate) fn sections(&self) -> Vec<SectionId> {
        let held = match &self.front {
            Front::Held(held) => Some(held),
            _ => None,
        };
        let over = self.over.iter().map(|over| over.id);
        let held = held.iter().flat_map(|held| held.sections.iter());
        let held = held.map(|section| section.id);
        let front = self.front_waiter().into_iter();
        held.chain(over)
            .chain(front)
            .chain(self.queue.sections())
            .collect()
    }

    fn front_waiter(&self) -> Option<SectionId> {
        match &self.front {
            Front::Acquiring(attempt) => Some(attempt.waiter.section),
            Front::Standing(standing) => Some(standing.waiter.section),
            Front::BackingOff(backoff) => Some(backoff.waiter.section),
            Front::Free | Front::Held(_) => None,
        }
    }

    /// This section, if it has the lock.
    fn section(&mut self, id: SectionId) -> Option<&mut Section> {
        self.held_by(id)?.section(id)
    }

    /// The round that is open, and what it asks for.
    fn round(&mut self) -> Option<(&mut Round, &mut Claim)> {
        match &mut self.front {
            Front::Acquiring(attempt) => Some((&mut attempt.round, &mut attempt.claim)),
            Front::Held(held) => Some((held.refresh.as_deref_mut()?, &mut held.claim)),
            Front::Free | Front::Standing(_) | Front::BackingOff(_) => None,
        }
    }

    /// What this owner may have on the nodes, if it has not been released.
    fn claim_of(&mut self, owner: Owner) -> Option<&mut Claim> {
        let front = match &mut self.front {
            Front::Acquiring(attempt) => Some(&mut attempt.claim),
            Front::Held(held) => Some(&mut held.claim),
            Front::Free | Front::Standing(_) | Front::BackingOff(_) => None,
        };
        let mut claims = front.into_iter().chain(self.kept.iter_mut());
        claims.find(|claim| claim.owner == owner)
    }

    /// What is true between any two events.
    #[cfg(debug_assertions)]
    pub(crate) fn invariants(&self, now: Instant) {
        let due = self.next_due(now).filter(|_| !self.is_won());
        assert!(due.is_none_or(|at| at > now), "what is due has been done");
        if let Front::Free = self.front {
            let waits = self.queue.first();
            let is_full = waits.is_none_or(|params| self.has_all(params.permits));
            assert!(is_full, "nobody waits behind nobody");
        }
        if let Front::Held(held) = &self.front {
            held.invariants();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process may hold a hundred thousand. What few of them need at a time is in boxes.
    #[test]
    fn a_key_that_is_held_is_small() {
        assert!(size_of::<Key>() <= 336, "{}", size_of::<Key>());
        assert!(size_of::<Section>() <= 80, "{}", size_of::<Section>());
    }
}
