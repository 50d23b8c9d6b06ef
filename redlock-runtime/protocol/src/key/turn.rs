//! A turn: the lock belongs to this process for a while, and its sections follow each other in it.
//!
//! A won attempt begins a turn and brings a block of fencing tokens. One section after the other is
//! given the lock *without asking any node*; each gets the next token of the block, and a lease that
//! counts from before the first request of the last round that a majority answered. The turn is
//! *refreshed* by a round that lets the keys live for longer and brings a new block. Renewals of
//! sections, extensions that a holder asks for, and reports of releases are the same round; one is
//! under way at a time.
//!
//! Why that is as safe as one round per section:
//! - Exclusion. Inside the process the lock is given on only after the section before has let go.
//!   Towards others the turn is one holder: every section in it ends before the keys of the last won
//!   round do. A section that is over and has not let go ends the turn, and nothing of it is released
//!   before it lets go, or before its own keys would have expired.
//! - Tokens. Blocks are disjoint (`rules::token`), and a block lies wholly above every block that was
//!   won before its round began. A section takes its token only from a *young* block, so that its
//!   token is above those of other processes' sections that ended before, and only from one that
//!   lies above the last token that was handed out here.
//! - A stuck section cannot hold the lock for ever: past its deadline nothing is refreshed, and its keys are released
//!   once its own would have expired.
//!
//! A turn that is *shared* has several sections at once, readers, and only such: each with its lease and
//! a token of its own. A reader joins those that have the lock under the same rule by which a section
//! begins after another, and not once another process has waited to have the lock alone for as long as a
//! turn may take. A reader that is over does not end the turn of the others.
//!
//! The turn of a section that is to have the lock for *at least* some time ends with the section, if
//! that ends sooner: the nodes keep the key for the rest of the time, from this process as well.

use std::{sync::Arc, time::Duration};

use super::{
    Front, Key,
    claim::Claim,
    cx::Cx,
    few::Few,
    queue::Queue,
    release::{Report, Reports},
    round::Round,
    section::{Over, Section},
    waiting::{Place, Waiter},
};
use crate::{
    action::{Answer, Loss, Release, Verdict},
    message::{Mode, SectionId},
    rules::{
        backoff::jitter,
        token::{Block, Token},
        validity::LockParams,
    },
    time::{Instant, Span},
};

/// How long a process keeps the lock while another one waits: so long that the cost of a change
/// between processes is small beside the sections, and so short that no process waits for long.
// With 25 ms, the 99th percentile of waits beside seven busy processes was 293 to 369 ms, now 235 to 298.
const TURN: Duration = Duration::from_millis(20);

/// For how many times as long as a round takes callers that wait to hear of their release wait for
/// others that have short sections.
const MOST_ROUNDS: u32 = 4;

/// Most turns are shorter, and need no watching. Longer ones are put on all nodes: on a bare majority a lock
/// is lost with one key.
const WATCH_AFTER: Duration = Duration::from_millis(20);

/// Clients of other libraries poll: the longest time for which a process stands back for them.
const LONGEST_MIXED_COOLDOWN: Duration = Duration::from_millis(50);

/// When readers could not join, the nodes are asked again after so long: the process that waits to have
/// the lock alone may have given up.
pub(super) const REJOIN: Duration = Duration::from_millis(50);

/// The turn, and the sections that have the lock now.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) claim: Claim,
    /// One at the most, unless the turn is shared.
    pub(super) sections: Vec<Section>,
    /// No reader joins before, if the nodes would have to be asked.
    pub(super) join_at: Instant,
    pub(super) began: Instant,
    /// How long the last won round took.
    pub(super) took: Span,
    /// Before the first request of the last won round.
    pub(super) won_at: Instant,
    /// How long that round lets the keys live.
    pub(super) ttl: Span,
    pub(super) block: Block,
    /// Before the first request of the round that brought the block.
    pub(super) block_at: Instant,
    pub(super) refresh: Option<Box<Round>>,
    /// What to propose at the least, if the last round did not agree on a block.
    pub(super) least_proposal: Token,
    /// What each node said in the last refresh, if that found no majority.
    pub(super) failed: Few<Verdict>,
    pub(super) reports: Reports,
    /// When to see where the key is.
    pub(super) look_at: Option<Instant>,
}

impl Held {
    /// The turn that a won attempt begins.
    pub(super) fn begin(
        mut claim: Claim,
        round: &Round,
        block: Option<Block>,
        cx: &Cx<'_>,
    ) -> Self {
        // Only a round in order took a place in the queue of all processes.
        claim.leaves = round.is_in_order();
        claim.is_single = cx.out.settings.mixed_fleet || round.question.params.is_fair;
        Self {
            claim,
            // Most turns have no more at a time.
            sections: Vec::with_capacity(1),
            join_at: cx.now(),
            began: cx.now(),
            took: cx.now().since(round.started).into(),
            won_at: round.started,
            ttl: round.question.params.key_ttl().into(),
            block: block.unwrap_or_default(),
            block_at: round.started,
            refresh: None,
            least_proposal: Token::default(),
            failed: Few::default(),
            reports: Reports::default(),
            look_at: Some(cx.now().after(WATCH_AFTER)),
        }
    }

    /// Gives the lock to a waiter. The turn can: see [`Held::can_start`].
    pub(super) fn start(&mut self, waiter: Waiter, cx: &mut Cx<'_>) {
        let Some(token) = self.block.take() else {
            return;
        };
        let id = waiter.section;
        let owner = self.claim.owner;
        let section = Section::new(id, waiter.params, owner, self.won_at, cx.now());
        let deadline = section.deadline;
        let at_least = section.params.at_least;
        // Readers share the keys, so none of them can keep the others from a writer.
        let is_kept = !at_least.is_zero() && !self.is_shared();
        // If the process dies, the nodes keep the keys no longer than the lease.
        self.claim.keep_until = is_kept.then(|| cx.now().after(at_least).min(deadline));
        self.sections.push(section);
        self.join_at = cx.now();
        let granted = Answer::Granted {
            deadline,
            token,
            attempts: waiter.lost_attempts,
        };
        cx.answer(id, granted);
    }

    pub(super) const fn is_shared(&self) -> bool {
        matches!(self.claim.mode, Mode::Shared)
    }

    /// The next waiter, if a turn of this kind is of use to it. One that needs the keys for much longer than
    /// the section that has them gets its own once that has ended: after a crash, others wait for the keys.
    fn of_its_kind<'a>(&self, next: Option<&'a Arc<LockParams>>) -> Option<&'a Arc<LockParams>> {
        let next = next.filter(|next| next.mode == self.claim.mode)?;
        let mut before = self.sections.iter().map(|section| &section.params);
        let fits = before.all(|params| next.key_ttl() <= 2 * params.key_ttl());
        (self.is_shared() || fits).then_some(next)
    }

    /// This section, if it has the lock.
    pub(super) fn section(&mut self, id: SectionId) -> Option<&mut Section> {
        self.sections.iter_mut().find(|section| section.id == id)
    }

    /// It is the only one that has the lock.
    pub(super) fn has_only(&self, id: SectionId) -> bool {
        !self.sections.is_empty() && self.sections.iter().all(|section| section.id == id)
    }

    /// The section lets go. What became of the release is known at once if its lease is over.
    pub(super) fn on_end(&mut self, id: SectionId, report: bool, cx: &Cx<'_>) -> Option<Release> {
        let place = self.sections.iter().position(|section| section.id == id);
        let Some(section) = place.map(|place| self.sections.swap_remove(place)) else {
            return Some(Release::AlreadyExpired);
        };
        // By the clock, not by what the nodes say: the holder had no right to the lock any more, whoever has it now.
        if cx.now() >= section.deadline {
            return Some(Release::AlreadyExpired);
        }
        if report {
            self.reports.push(Report {
                section: section.id,
                // As long as the bounds in the guarantees allow a silent node to take; `Unknown` follows.
                by: cx.now().after(section.params.round_timeout()),
                at: cx.now(),
                after: cx.out.last_round,
            });
        }
        None
    }

    /// When to look at it again at the latest.
    pub(super) fn next_due(&self, next: Option<&Arc<LockParams>>, now: Instant) -> Option<Instant> {
        let next = self.of_its_kind(next);
        let dues = [
            self.refresh.as_ref().map(|round| round.next_due(now)),
            self.reports.next_due(),
            self.sections.iter().map(|section| section.deadline).min(),
            self.refresh_at(next),
            self.look_at,
        ];
        dues.into_iter().flatten().min()
    }

    /// When to refresh the turn so that the next section need not wait for it. Not while a section
    /// runs for longer than a block stays young: then it is refreshed once that is over.
    pub(super) fn refresh_ahead_at(&self, section: &Section, next: &LockParams) -> Option<Instant> {
        // Readers join the sections that run, if the nodes let them.
        if self.is_shared() {
            return Some(self.join_at);
        }
        let fresh = next.freshness();
        let at = self.block_at.after(fresh / 2);
        // Else the new block would be old again before this section has ended.
        let is_short = at < section.granted.after(fresh) && at < section.deadline;
        (is_short && self.failed.is_empty() && !self.has_had_its_share(at)).then_some(at)
    }

    /// When to ask what became of releases: once a section takes longer than a round does. Shorter ones
    /// let go soon, and one round tells of all, or the release of the keys does.
    pub(super) fn verify_at(&self, section: &Section) -> Option<Instant> {
        let since = self.reports.since().filter(|_| self.failed.is_empty())?;
        let took = Duration::from(self.took);
        Some((section.granted.after(took)).min(since.after(MOST_ROUNDS * took)))
    }

    /// Whether a section can begin without asking any node: the turn's keys live long enough, and it
    /// has a token that is young. Right after a won round it need not be young: what is left of the
    /// lease decides, as for an acquisition.
    fn can_start(&self, params: &LockParams, is_just_won: bool, now: Instant) -> bool {
        let fresh = params.freshness();
        let is_young = now.since(self.won_at) < fresh && now.since(self.block_at) < fresh;
        let deadline = params.deadline(self.won_at, self.won_at);
        // A refresh that is under way will extend the section by its own lease, so the nodes must have
        // been asked for no less.
        let asks_for = |round: &Round| round.question.params.key_ttl();
        let refresh = self.refresh.as_deref().map(asks_for);
        let lasts = refresh.is_none_or(|ttl| ttl >= params.key_ttl());
        (is_young || is_just_won && self.block_at == self.won_at)
            // From a copy: the token itself is for the section that begins.
            && { self.block }.take().is_some()
            // No node was asked to keep the key for longer, so a longer lease would outlive it.
            && self.ttl >= params.key_ttl().into()
            && lasts
            && deadline.since(now) >= params.min_validity
    }

    /// The key must be kept from everybody, or another process waits, or may wait, and this one has had
    /// the lock for long enough.
    pub(super) fn has_had_its_share(&self, now: Instant) -> bool {
        let is_kept = self.claim.keep_until.is_some_and(|until| now < until);
        let is_single = self.claim.is_single && (self.sections.is_empty() || !self.is_shared());
        is_kept || is_single || self.claim.has_remote_waiter && now.since(self.began) >= TURN
    }

    /// Ends the sections that are late. Others may go on.
    fn end_late(&mut self, over: &mut Few<Over>, cx: &mut Cx<'_>) {
        let now = cx.now();
        let is_late = |section: &Section| section.deadline <= now;
        while let Some(place) = self.sections.iter().position(is_late) {
            let section = self.sections.swap_remove(place);
            let verdicts = self.verdicts();
            cx.answer(section.id, Answer::Over(Loss::Expired { verdicts }));
            over.push(section.over(self.claim.owner));
        }
    }

    /// No majority is known to have the key any more.
    fn loss(&self, cx: &Cx<'_>) -> Option<Loss> {
        self.claim.is_lost().then(|| {
            let verdict = |node| match cx.nodes.verdict(node, cx.now()) {
                Some(verdict) if !self.claim.is_known(node) => verdict,
                _ => self.claim.verdict(node, cx.now()),
            };
            let verdicts = cx.nodes.ids().map(verdict).collect();
            Loss::Lost { verdicts }
        })
    }

    /// What the nodes said in the round that did not extend the lease in time.
    fn verdicts(&self) -> Vec<Verdict> {
        let asked = self.refresh.as_deref().map(Round::verdicts);
        asked.unwrap_or_else(|| self.failed.to_vec())
    }

    fn refresh_if_due(&mut self, queue: &Queue, cx: &mut Cx<'_>) -> bool {
        let next = self.of_its_kind(queue.first());
        let is_due = self.refresh_at(next).is_some_and(|at| at <= cx.now());
        is_due && self.refresh(next, cx)
    }

    /// Lets the next waiter join the readers that have the lock. True if it has joined.
    fn join(&mut self, queue: &mut Queue, is_just_won: bool, cx: &mut Cx<'_>) -> bool {
        let now = cx.now();
        let next = self.of_its_kind(queue.first());
        let Some(next) = next.filter(|_| self.is_shared()) else {
            return false;
        };
        let is_over = self.has_had_its_share(now);
        if !is_over && self.can_start(next, is_just_won, now) {
            return self.start_first(queue, cx);
        }
        // A round that brought all that was wanted was of no use, so the next one would not be either.
        if is_just_won && (is_over || self.block_at == self.won_at) {
            self.join_at = now.after(REJOIN);
        }
        false
    }

    /// Gives the lock to the first waiter, if there is one.
    fn start_first(&mut self, queue: &mut Queue, cx: &mut Cx<'_>) -> bool {
        let first = queue.pop();
        first
            .map(|first| self.start(Waiter::new(first, Place::default()), cx))
            .is_some()
    }

    #[cfg(debug_assertions)]
    pub(super) fn invariants(&self) {
        let last = self.won_at.after(self.ttl.into());
        for section in self.sections.iter() {
            assert!(section.deadline < last, "a lease ends before its keys do");
            assert!(
                section.params.mode == self.claim.mode,
                "it is of the kind of its turn"
            );
        }
        let is_alone = self.sections.len() <= 1;
        assert!(is_alone || self.is_shared(), "one section has the lock");
    }
}

impl Key {
    pub(super) fn advance_held(&mut self, cx: &mut Cx<'_>) -> bool {
        let (Front::Held(held), queue) = (&mut self.front, &mut self.queue) else {
            return false;
        };
        // The clock first: a majority that replies after the deadline extends nothing.
        held.end_late(&mut self.over, cx);
        if let Some(loss) = held.loss(cx) {
            self.end_under_holder(loss, cx);
            return true;
        }
        // After the losses: a round that is won now must not hide that the keys were gone.
        let is_just_won = held.advance_refresh(cx);
        held.reports.answer_late(cx);
        held.look_if_due(cx);
        if held.sections.is_empty() {
            return self.next_section(is_just_won, cx);
        }
        held.join(queue, is_just_won, cx) || held.refresh_if_due(queue, cx)
    }

    /// No section has the lock. True if that has changed, or the turn has ended.
    fn next_section(&mut self, is_just_won: bool, cx: &mut Cx<'_>) -> bool {
        // The line has not said yet which of its callers gets the slot.
        if self.is_won() {
            return false;
        }
        let now = cx.now();
        let (Front::Held(held), queue) = (&mut self.front, &mut self.queue) else {
            return false;
        };
        // A section that has not let go may still write: none follows it, and nothing is released.
        let is_stuck = self.over.iter().any(|over| over.owner == held.claim.owner);
        let is_over = is_stuck || held.has_had_its_share(now);
        // A process that is killed leaves the keys to their end, so they must not live for much longer
        // than the section's own lease needs: an extension never makes them live for less.
        let fits = |next: &&Arc<LockParams>| {
            held.claim.ttl <= (2 * next.key_ttl()).into() && !next.is_fair
        };
        let next = held.of_its_kind(queue.first());
        let next = next.filter(|_| !is_over).filter(fits);
        // A round that brought all that was wanted, too late for a section to begin, is a failure. So is one
        // that brought no numbers if the last are old: others that keep their turns, too, may overtake each
        // proposal for as long as nobody gives up.
        let is_old = |next: &Arc<LockParams>| now.since(held.block_at) >= next.round_timeout();
        let is_failure = held.block_at == held.won_at
            || held.least_proposal > Token::default() && next.is_some_and(is_old);
        let has_failed = !held.failed.is_empty() || is_just_won && is_failure;
        match next {
            Some(next) if held.can_start(next, is_just_won, now) => self.start_next(cx),
            Some(next) if !has_failed => held.refresh.is_none() && held.refresh(Some(next), cx),
            _ => {
                self.end_turn(cx);
                true
            }
        }
    }

    fn start_next(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.slot().is_none() {
            let Front::Held(held) = &mut self.front else {
                return false;
            };
            return held.start_first(&mut self.queue, cx);
        }
        // Who called first goes first, at whichever key of the lock it waits, and this slot sees only its own.
        if let Some(next) = self.queue.pop() {
            self.ask_line(Waiter::new(next, Place::default()));
        }
        false
    }

    /// Releases the lock. If another process waits, this one asks again in the order of the queue.
    fn end_turn(&mut self, cx: &mut Cx<'_>) {
        let Front::Held(held) = self.take_front() else {
            return;
        };
        let now = cx.now();
        // This process stands behind the others now. If none waits, it may ask again at once.
        if held.claim.has_remote_waiter {
            self.on_turn_end(now);
        }
        if cx.out.settings.mixed_fleet {
            // They take no place and hear nothing: they ask again after a random time.
            let cooldown = jitter(LONGEST_MIXED_COOLDOWN, cx.random());
            self.contention().stand_back_until = Some(now.after(cooldown));
        }
        self.let_go(held, cx);
    }
}
