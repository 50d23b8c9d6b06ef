//! Everything about one key in this process: who waits, who holds, what is owed to the nodes.
//!
//! At any time one of four things is at the *front*:
//! - nothing (`Free`),
//! - an attempt of the first waiter to get the lock (`Acquiring`, in `attempt`),
//! - its pause between two attempts (`BackingOff`, in `waiting`),
//! - the turn of this process, with or without a section in it (`Held`, in `turn`).
//!
//! Every event notes what it says and then calls [`Key::advance`], which goes from one state to the
//! next for as long as there is something to do. Time is one such event: nothing is done *because* a
//! timer has woken, but because the clock says so.

mod attempt;
mod claim;
mod fairness;
mod presence;
mod queue;
mod refresh;
mod release;
mod round;
mod section;
mod turn;
mod waiting;

use std::{collections::BTreeMap, sync::Arc};

use self::{
    attempt::Attempt,
    claim::Claim,
    fairness::TurnOrder,
    queue::{Queue, Waiter},
    release::Releases,
    turn::{Held, Report},
    waiting::Backoff,
};
use crate::{
    action::{Action, Answer, Cause, Loss, Refusal, Release, Verdict},
    ask::{Ask, KeyId, RoundId},
    message::{NodeId, Owner, Reply, RequestId, SectionId},
    node::{Nodes, Out},
    rules::validity::LockParams,
    time::Instant,
};

/// What a key acts with.
pub(crate) struct Cx<'a> {
    pub(crate) nodes: &'a mut Nodes,
    pub(crate) sections: &'a mut BTreeMap<SectionId, KeyId>,
    pub(crate) out: Out<'a>,
}

impl Cx<'_> {
    pub(crate) const fn now(&self) -> Instant {
        self.out.now
    }

    fn answer(&mut self, section: SectionId, answer: Answer) {
        if matches!(answer, Answer::Refused(_)) {
            self.sections.remove(&section);
        }
        let answer = Action::Answer { section, answer };
        self.out.actions.push_back(answer);
    }

    fn released(&mut self, section: SectionId, release: Release) {
        self.answer(section, Answer::Released(release));
    }
}

/// One key.
#[derive(Debug)]
pub(crate) struct Key {
    id: KeyId,
    name: Arc<str>,
    front: Front,
    queue: Queue,
    order: TurnOrder,
    /// Sections that are over and have not let go yet. Nothing of theirs is released before.
    stuck: Vec<Stuck>,
    releases: Releases,
    /// Why the last attempt failed: what a waiter is told that gives up further back.
    last_refusal: Option<Refusal>,
    /// The owner that had a majority when all nodes were asked last.
    holder: Option<Option<Owner>>,
    rounds: u64,
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each key, and it is changed far more often than moved"
)]
enum Front {
    Free {
        /// The lock is left to other processes until then.
        stand_back_until: Option<Instant>,
    },
    Acquiring(Attempt),
    BackingOff(Backoff),
    Held(Held),
}

#[derive(Debug)]
struct Stuck {
    section: SectionId,
    claim: Claim,
}

impl Front {
    const FREE: Self = Self::Free {
        stand_back_until: None,
    };
}

impl Key {
    pub(crate) fn new(id: KeyId, name: Arc<str>) -> Self {
        Self {
            id,
            name,
            front: Front::FREE,
            queue: Queue::default(),
            order: TurnOrder::default(),
            stuck: Vec::new(),
            releases: Releases::default(),
            last_refusal: None,
            holder: None,
            rounds: 0,
        }
    }

    pub(crate) const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Nothing is left of it.
    pub(crate) fn is_idle(&self) -> bool {
        let is_free = matches!(
            self.front,
            Front::Free {
                stand_back_until: None
            }
        );
        is_free && self.queue.is_empty() && self.stuck.is_empty() && self.releases.are_done()
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        let front = match &self.front {
            Front::Free { stand_back_until } => *stand_back_until,
            Front::Acquiring(attempt) => Some(attempt.next_due()),
            Front::BackingOff(backoff) => Some(backoff.next_due()),
            Front::Held(held) => held.next_due(self.queue.first()),
        };
        let dues = [front, self.queue.next_due(), self.releases.next_due()];
        dues.into_iter().flatten().min()
    }

    /// The releases that a connected node has not confirmed.
    pub(crate) fn unconfirmed_releases(&self, nodes: &Nodes) -> usize {
        self.releases.unconfirmed(nodes)
    }

    // ---- callers

    pub(crate) fn on_ask(&mut self, section: SectionId, params: LockParams, cx: &mut Cx<'_>) {
        let now = cx.now();
        let is_first = matches!(self.front, Front::Free { .. }) && self.queue.is_empty();
        if params.wait.is_zero() && !is_first {
            let refusal = self.refusal_in_queue(now);
            return cx.answer(section, Answer::Refused(refusal));
        }
        self.queue.join(Waiter {
            section,
            params,
            wait_until: now.after(params.wait),
            lost_attempts: 0,
            asks_all: true,
        });
        if is_first {
            // Also a waiter that does not wait has its attempt.
            self.step_up(cx);
        }
        self.advance(cx);
    }

    pub(crate) fn on_extend(&mut self, section: SectionId, cx: &mut Cx<'_>) {
        if let Front::Held(held) = &mut self.front {
            held.ask_extension(section);
        }
        self.advance(cx);
    }

    /// The caller is done, whatever became of its section.
    pub(crate) fn on_end(&mut self, section: SectionId, report: bool, cx: &mut Cx<'_>) {
        let release = if let Some(place) = self.place_of_stuck(section) {
            let Stuck { claim, .. } = self.stuck.swap_remove(place);
            self.release(claim, Vec::new(), cx);
            self.retry_now(cx);
            Some(Release::AlreadyExpired)
        } else if self.front_waiter() == Some(section) {
            self.cancel_front(cx);
            Some(Release::Unknown)
        } else if let Front::Held(held) = &mut self.front
            && held.has_section(section)
        {
            held.on_end(report, cx.now())
        } else {
            self.queue.leave(section);
            Some(Release::Unknown)
        };
        if let Some(release) = release.filter(|_| report) {
            cx.released(section, release);
        }
        self.advance(cx);
    }

    /// Nothing new is taken on. Holders go on, unless they are to be aborted.
    pub(crate) fn stop(&mut self, abort_holders: bool, cx: &mut Cx<'_>) {
        let stopped = || Answer::Refused(Refusal::without_verdicts(Cause::Stopped));
        while let Some(waiter) = self.queue.pop() {
            cx.answer(waiter.section, stopped());
        }
        if let Some(section) = self.front_waiter() {
            self.cancel_front(cx);
            cx.answer(section, stopped());
        }
        if let Front::Held(held) = &self.front
            && held.section.is_some()
            && abort_holders
        {
            self.end_under_holder(Loss::Stopped, cx);
        }
        self.advance(cx);
    }

    // ---- nodes

    pub(crate) fn on_reply(
        &mut self,
        (node, request): (NodeId, RequestId),
        ask: Ask,
        reply: Reply,
        cx: &mut Cx<'_>,
    ) {
        match ask {
            Ask::Acquire(round, owner) => self.on_vote((node, request), (round, owner), reply, cx),
            Ask::Extend(round, owner) => {
                self.on_extension((node, request), (round, owner), reply, cx);
            }
            Ask::PutBack(owner) => self.on_put_back((node, request), owner, &reply, cx),
            Ask::Watch(owner) => self.on_watched((node, request), owner, &reply, cx),
            Ask::Await => self.on_awaited(node, &reply, cx),
            Ask::Release(owner) => {
                let key = (self.id, &self.name);
                self.releases.on_reply(key, (node, owner), &reply, cx);
            }
        }
        self.advance(cx);
    }

    /// A request will get no reply.
    pub(crate) fn on_unanswered(
        &mut self,
        node: NodeId,
        ask: Ask,
        verdict: Verdict,
        cx: &mut Cx<'_>,
    ) {
        match ask {
            Ask::Acquire(round, _) | Ask::Extend(round, _) => {
                let now = cx.now();
                if let Some(round) = self.round(round) {
                    round.on_verdict(node, verdict, now);
                }
            }
            Ask::Watch(owner) => {
                if let Some(claim) = self.claim_of(owner) {
                    claim.end_read(node);
                }
            }
            Ask::Await => self.on_await_failed(node),
            Ask::Release(owner) => self.releases.on_unanswered(node, owner),
            Ask::PutBack(_) => {}
        }
        self.advance(cx);
    }

    /// A request that was deferred is about to be sent, unless it is not wanted any more: its
    /// release has gone out then.
    pub(crate) fn wants(
        &mut self,
        (node, request): (NodeId, RequestId),
        ask: Ask,
        now: Instant,
    ) -> bool {
        let (owner, is_wanted) = match ask {
            // Also of a lock that the other nodes have granted meanwhile: it should not rest on a
            // bare majority.
            Ask::Acquire(_, owner) | Ask::PutBack(owner) => (owner, true),
            Ask::Extend(round, owner) => (owner, self.round(round).is_some()),
            Ask::Watch(owner) => (owner, true),
            Ask::Await | Ask::Release(_) => return true,
        };
        let is_stuck = self.stuck.iter().any(|stuck| stuck.claim.owner == owner);
        let Some(claim) = self.claim_of(owner).filter(|_| is_wanted && !is_stuck) else {
            return false;
        };
        match ask {
            Ask::Acquire(..) => claim.on_acquire_sent(node, request, now),
            Ask::PutBack(_) => claim.on_sent(node, request),
            _ => {}
        }
        true
    }

    /// A node says that the key may have changed. It is read before anything is believed.
    pub(crate) fn on_changed(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        let (id, name) = (self.id, Arc::clone(&self.name));
        match &mut self.front {
            Front::Held(held) => Self::watch(id, &name, held.claim_mut(), node, cx),
            Front::BackingOff(_) => self.read(node, cx),
            Front::Free { .. } | Front::Acquiring(_) => {}
        }
    }

    /// A connection is up. It tells of nothing that was read on the one before.
    pub(crate) fn on_connected(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        self.releases.on_connected(self.id, &self.name, node, cx);
        if let Front::Held(held) = &mut self.front
            && held.is_watched()
        {
            Self::watch(self.id, &self.name, held.claim_mut(), node, cx);
        }
        self.advance(cx);
    }

    /// A node votes: now, or again.
    pub(crate) fn on_admitted(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        match &mut self.front {
            Front::Held(held) if held.is_watched() => self.put_back(node, cx),
            Front::BackingOff(backoff)
                if backoff.lacks_quorum() && cx.nodes.has_majority(cx.out.now) =>
            {
                self.retry_now(cx);
            }
            _ => {}
        }
        self.advance(cx);
    }

    // ---- going on

    /// Goes from state to state for as long as there is something to do.
    pub(crate) fn advance(&mut self, cx: &mut Cx<'_>) {
        self.releases.advance(self.id, &self.name, cx);
        while let Some(late) = self.queue.pop_late(cx.now()) {
            let refusal = self.refusal_in_queue(cx.now());
            cx.answer(late.section, Answer::Refused(refusal));
        }
        while match &mut self.front {
            Front::Free { stand_back_until } => {
                stand_back_until.take_if(|until| *until <= cx.out.now);
                self.step_up(cx)
            }
            Front::Acquiring(_) => self.advance_attempt(cx),
            Front::BackingOff(_) => self.advance_backoff(cx),
            Front::Held(_) => self.advance_held(cx),
        } {}
    }

    /// Lets the first waiter come to the front. False if nobody waits.
    fn step_up(&mut self, cx: &mut Cx<'_>) -> bool {
        let Front::Free { stand_back_until } = self.front else {
            return false;
        };
        let Some(waiter) = self.queue.pop() else {
            return false;
        };
        match stand_back_until.filter(|_| !waiter.params.wait.is_zero()) {
            Some(until) if cx.now() < until => self.stand_back(waiter, until, cx),
            _ => self.attempt(waiter, attempt::Opening::Broadcast, cx),
        }
        true
    }

    /// Releases a claim on all nodes that may have something of it.
    fn release(&mut self, claim: Claim, reports: Vec<Report>, cx: &mut Cx<'_>) {
        let (id, name) = (self.id, Arc::clone(&self.name));
        self.releases.begin(id, &name, &claim, reports, cx);
    }

    /// Ends a section under its holder, and with it the turn. The next waiter goes on: the nodes
    /// decide when.
    fn end_under_holder(&mut self, loss: Loss, cx: &mut Cx<'_>) {
        let Front::Held(Held { turn, section }) = self.take_front() else {
            return;
        };
        let (claim, reports) = turn.into_claim();
        match section {
            Some(section) => {
                let section = section.id;
                let release = if claim.is_gone() {
                    Release::AlreadyExpired
                } else {
                    Release::Unknown
                };
                for report in reports {
                    cx.released(report.section, release);
                }
                cx.answer(section, Answer::Over(loss));
                self.stuck.push(Stuck { section, claim });
            }
            None => self.release(claim, reports, cx),
        }
    }

    /// What a waiter hears that does not get to ask the nodes, because another section of this
    /// process is in front: that it is held, or whatever keeps that one from holding it.
    fn refusal_in_queue(&self, now: Instant) -> Refusal {
        if let Front::Held(held) = &self.front {
            let retry_after = held.section.as_ref().map(|held| held.deadline.since(now));
            return Refusal::without_verdicts(Cause::Contended { retry_after });
        }
        let unknown = Cause::Contended { retry_after: None };
        let last = self.last_refusal.clone();
        last.unwrap_or_else(|| Refusal::without_verdicts(unknown))
    }

    // ---- looking things up

    /// Takes what is at the front. Nothing is, then.
    fn take_front(&mut self) -> Front {
        std::mem::replace(&mut self.front, Front::FREE)
    }

    fn new_round(&mut self) -> RoundId {
        self.rounds += 1;
        RoundId(self.rounds)
    }

    fn front_waiter(&self) -> Option<SectionId> {
        match &self.front {
            Front::Acquiring(attempt) => Some(attempt.waiter.section),
            Front::BackingOff(backoff) => Some(backoff.waiter.section),
            Front::Free { .. } | Front::Held(_) => None,
        }
    }

    fn place_of_stuck(&self, section: SectionId) -> Option<usize> {
        let is_it = |stuck: &Stuck| stuck.section == section;
        self.stuck.iter().position(is_it)
    }

    /// The round with this number, if it is still open.
    fn round(&mut self, id: RoundId) -> Option<&mut round::Round> {
        let round = match &mut self.front {
            Front::Acquiring(attempt) => &mut attempt.round,
            Front::Held(held) => held.round_mut()?,
            Front::Free { .. } | Front::BackingOff(_) => return None,
        };
        (round.id == id).then_some(round)
    }

    /// What this owner may have on the nodes, if it has not been released.
    fn claim_of(&mut self, owner: Owner) -> Option<&mut Claim> {
        let front = match &mut self.front {
            Front::Acquiring(attempt) => Some(&mut attempt.claim),
            Front::Held(held) => Some(held.claim_mut()),
            Front::Free { .. } | Front::BackingOff(_) => None,
        };
        let stuck = self.stuck.iter_mut().map(|stuck| &mut stuck.claim);
        front
            .into_iter()
            .chain(stuck)
            .find(|claim| claim.owner == owner)
    }

    /// What is true between any two events.
    #[cfg(debug_assertions)]
    pub(crate) fn invariants(&self) {
        if let Front::Free { .. } = self.front {
            assert!(self.queue.is_empty(), "nobody waits behind nobody");
        }
        if let Front::Held(held) = &self.front {
            held.invariants();
        }
    }
}
