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
//!   before it lets go.
//! - Tokens. Blocks are disjoint (`rules::token`), and a block lies wholly above every block that was
//!   won before its round began. A section takes its token only from a *young* block, so that its
//!   token is above those of other processes' sections that ended before, and only from one that
//!   lies above the last token that was handed out here.
//! - A stuck section cannot hold the lock for ever: past its deadline nothing is refreshed.

use std::time::Duration;

use super::{
    Claim, Cx, Front, Key, Waiter,
    round::{Progress, Round},
    section::Section,
    waiting::stand_back_for,
};
use crate::{
    action::{Answer, Loss, Release, Verdict},
    ask::RoundId,
    message::{Owner, SectionId},
    rules::{
        token::{Block, Token},
        validity::LockParams,
    },
    time::Instant,
};

/// How long a process keeps the lock while another one waits: so long that the cost of a change
/// between processes is small beside the sections, and so short that no process waits for long.
pub(super) const TURN: Duration = Duration::from_millis(25);

/// How many tokens a round takes while sections wait here. Proposals are microseconds, so this costs
/// nothing; and as many sections as can begin while a block is young.
pub(super) const BLOCK: u64 = 256;

/// Most turns are shorter, and need no watching.
const WATCH_AFTER: Duration = Duration::from_millis(20);

/// The turn, and the section that has the lock now.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) turn: Turn,
    pub(super) section: Option<Section>,
}

#[derive(Debug)]
pub(super) struct Turn {
    pub(super) claim: Claim,
    pub(super) began: Instant,
    /// Before the first request of the last won round.
    pub(super) won_at: Instant,
    /// How long that round lets the keys live.
    pub(super) ttl: Duration,
    pub(super) block: Option<Block>,
    /// Before the first request of the round that brought the block.
    pub(super) block_at: Instant,
    /// The last token that was handed out.
    pub(super) token: Token,
    pub(super) refresh: Option<Round>,
    /// The last round that was begun, when, and how long it lets the keys live.
    pub(super) last_round: RoundId,
    pub(super) last_ttl: (Instant, Duration, Duration),
    /// What to propose at the least, after a disagreement.
    pub(super) least_proposal: Token,
    /// The last refresh found no majority.
    pub(super) has_failed: bool,
    /// Callers that have let go and want to know whether a majority still had the key.
    pub(super) reports: Vec<Report>,
    pub(super) has_remote_waiter: bool,
    /// When to read the key on all nodes; `None` once it has been read.
    pub(super) watch_at: Option<Instant>,
    /// One section and no more: see `Settings::mixed_fleet`.
    pub(super) is_single: bool,
    /// How long its first round took.
    pub(super) took: Duration,
}

/// A caller that waits to hear what became of its release.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) section: SectionId,
    /// Then the answer is `Unknown`.
    pub(super) by: Instant,
    /// Only rounds that began later tell.
    pub(super) after: RoundId,
}

impl Held {
    /// The turn that a won attempt begins.
    pub(super) fn begin(
        claim: Claim,
        round: &Round,
        block: Option<Block>,
        (has_remote_waiter, is_single): (bool, bool),
        now: Instant,
    ) -> Self {
        let turn = Turn {
            claim,
            began: now,
            won_at: round.started,
            ttl: round.ttl,
            block,
            block_at: round.started,
            token: Token::default(),
            refresh: None,
            last_round: round.id,
            last_ttl: (round.started, round.ttl, round.spare),
            least_proposal: Token::default(),
            has_failed: false,
            reports: Vec::new(),
            has_remote_waiter,
            watch_at: Some(now.after(WATCH_AFTER)),
            is_single,
            took: round.took(),
        };
        Self {
            turn,
            section: None,
        }
    }

    /// Gives the lock to a waiter. The turn can: see [`Turn::can_start`].
    pub(super) fn start(&mut self, waiter: Waiter, cx: &mut Cx<'_>) {
        let Waiter {
            section: id,
            params,
            ..
        } = waiter;
        let turn = &mut self.turn;
        let Some(token) = turn.block.as_mut().and_then(Block::take) else {
            return;
        };
        turn.token = token;
        let section = Section::new(id, params, turn.claim.owner, turn.won_at, cx.now());
        let deadline = section.deadline;
        self.section = Some(section);
        cx.answer(id, Answer::Granted { deadline, token });
    }

    pub(super) fn has_section(&self, section: SectionId) -> bool {
        self.section.as_ref().is_some_and(|held| held.id == section)
    }

    pub(super) const fn is_watched(&self) -> bool {
        self.turn.watch_at.is_none()
    }

    pub(super) const fn claim_mut(&mut self) -> &mut Claim {
        &mut self.turn.claim
    }

    pub(super) const fn round_mut(&mut self) -> Option<&mut Round> {
        self.turn.refresh.as_mut()
    }

    pub(super) fn on_remote_waiter(&mut self, owner: Owner) {
        self.turn.has_remote_waiter |= self.turn.claim.owner == owner;
    }

    /// The holder wants a fresh lease. A round that is under way serves.
    pub(super) fn ask_extension(&mut self, id: SectionId) {
        if let Some(section) = self.section.as_mut().filter(|section| section.id == id) {
            section.wants_extension = true;
        }
    }

    /// The section lets go. What became of the release is known at once if its lease is over.
    pub(super) fn on_end(&mut self, report: bool, now: Instant) -> Option<Release> {
        let section = self.section.take()?;
        if now >= section.deadline {
            // The turn must not go on: this section may have been stuck.
            self.turn.has_failed = true;
            self.turn.block = None;
            return Some(Release::AlreadyExpired);
        }
        if report {
            self.turn.reports.push(Report {
                section: section.id,
                by: now.after(section.params.round_timeout()),
                after: self.turn.last_round,
            });
        }
        None
    }

    /// When to look at it again at the latest.
    pub(super) fn next_due(&self, next: Option<&Waiter>) -> Option<Instant> {
        let turn = &self.turn;
        let round = turn.refresh.as_ref().map(Round::next_due);
        let report = turn.reports.iter().map(|report| report.by).min();
        let section = self.section.as_ref();
        let section = section.map(|section| section.next_due(turn.refresh.is_some()));
        let ahead = next
            .filter(|_| turn.refresh.is_none())
            .and_then(|next| self.refresh_ahead_at(next));
        let dues = [round, report, section, ahead, turn.watch_at];
        dues.into_iter().flatten().min()
    }

    /// When to refresh the turn so that the next section need not wait for it. Not while a section
    /// runs for longer than a block stays young: then it is refreshed once that is over.
    pub(super) fn refresh_ahead_at(&self, next: &Waiter) -> Option<Instant> {
        let section = self.section.as_ref()?;
        let fresh = next.params.freshness();
        let at = self.turn.block_at.after(fresh / 2);
        let is_short = at < section.granted.after(fresh) && at < section.deadline;
        let may_go_on = !self.turn.has_failed && !self.turn.is_single;
        (is_short && may_go_on && !self.turn.has_had_its_share(at)).then_some(at)
    }

    fn verdicts(&mut self) -> Vec<Verdict> {
        if let Some(round) = self.turn.refresh.take() {
            return round.into_verdicts();
        }
        let failed = self.section.as_mut().map(|section| &mut section.failed);
        failed.map(std::mem::take).unwrap_or_default()
    }

    #[cfg(debug_assertions)]
    pub(super) fn invariants(&self) {
        if let Some(section) = &self.section {
            let last = self.turn.won_at.after(self.turn.ttl);
            assert!(section.deadline < last, "a lease ends before its keys do");
        }
    }
}

impl Turn {
    /// Whether a section can begin without asking any node; the turn's keys live long enough, and it
    /// has a token that is young. Right after a won round it need not be young: what is left of the
    /// lease decides, as for an acquisition.
    fn can_start(&self, params: &LockParams, is_just_won: bool, now: Instant) -> bool {
        let fresh = params.freshness();
        let is_young = now.since(self.won_at) < fresh && now.since(self.block_at) < fresh;
        let deadline = params.deadline(self.won_at, self.won_at);
        (is_young || is_just_won && self.block_at == self.won_at)
            && self.block.is_some_and(|block| block.lies_above(self.token))
            && self.block.is_some_and(|mut block| block.take().is_some())
            && self.ttl >= params.key_ttl()
            && deadline.since(now) >= params.min_validity
    }

    /// What to propose for the next block: above the last one by as much as clocks have gone on
    /// since, because other processes propose by theirs; or above numbers that disagreed.
    pub(super) fn next_proposal(&self, now: Instant) -> Token {
        let elapsed = u64::try_from(now.since(self.block_at).as_micros()).unwrap_or(u64::MAX);
        let number = self.token.0.saturating_add(BLOCK).saturating_add(elapsed);
        Token(number.min(Token::LARGEST.0)).max(self.least_proposal)
    }

    /// Another process waits, and this one has had the lock for long enough.
    fn has_had_its_share(&self, now: Instant) -> bool {
        self.has_remote_waiter && now.since(self.began) >= TURN
    }

    /// The end of the turn. What is left is to be released.
    pub(super) fn into_claim(self) -> (Claim, Vec<Report>) {
        (self.claim, self.reports)
    }
}

impl Key {
    pub(super) fn advance_held(&mut self, cx: &mut Cx<'_>) -> bool {
        let now = cx.now();
        let Front::Held(held) = &mut self.front else {
            return false;
        };
        // The clock first: a majority that replies after the deadline extends nothing.
        if held
            .section
            .as_ref()
            .is_some_and(|section| section.deadline <= now)
        {
            let verdicts = held.verdicts();
            self.end_under_holder(Loss::Expired { verdicts }, cx);
            return true;
        }
        if held.turn.claim.is_lost() {
            self.lose_turn(cx);
            return true;
        }
        let progress = held.turn.refresh.as_mut().map(|round| round.progress(now));
        let is_just_won = match progress {
            None | Some(Progress::Open | Progress::AskMore) => false,
            Some(Progress::Won(block)) => self.on_refreshed(block, None, cx),
            Some(Progress::Disagrees) => {
                let proposal = held.turn.refresh.as_ref().map(Round::next_proposal);
                self.on_refreshed(None, proposal, cx)
            }
            Some(Progress::Failed(_)) => self.on_refresh_failed(cx),
        };
        self.answer_late_reports(cx);
        self.watch_if_due(cx);
        let Front::Held(held) = &self.front else {
            return true;
        };
        if held.section.is_none() {
            return self.next_section(is_just_won, cx);
        }
        self.refresh_if_due(cx)
    }

    /// No section has the lock. True if that has changed, or the turn has ended.
    fn next_section(&mut self, is_just_won: bool, cx: &mut Cx<'_>) -> bool {
        let now = cx.now();
        let Front::Held(held) = &mut self.front else {
            return false;
        };
        let turn = &mut held.turn;
        let is_over = turn.has_had_its_share(now) || turn.is_single;
        // A section that gets stuck keeps the keys to their end, so they must not live for much longer
        // than its own lease needs: an extension never makes them live for less.
        let fits = |next: &&Waiter| turn.claim.ttl <= 2 * next.params.key_ttl();
        let next = self.queue.first().filter(|_| !is_over).filter(fits);
        let Some(params) = next.map(|next| next.params) else {
            self.end_turn(cx);
            return true;
        };
        if turn.can_start(&params, is_just_won, now) {
            if let Some(waiter) = self.queue.pop() {
                held.start(waiter, cx);
            }
            return true;
        }
        // A round that brought all that was wanted, too late for a section to begin, is a failure.
        if turn.has_failed || is_just_won && turn.block_at == turn.won_at {
            self.end_turn(cx);
            return true;
        }
        turn.refresh.is_none() && self.refresh(cx)
    }

    /// Lets the lock go. If another process waits, it is left to it for a while.
    fn end_turn(&mut self, cx: &mut Cx<'_>) {
        let stands_back = match &self.front {
            Front::Held(held) if held.turn.has_remote_waiter || held.turn.is_single => {
                Some(held.turn.took)
            }
            _ => None,
        };
        let stand_back_until = stands_back.map(|round| cx.out.now.after(stand_back_for(round, cx)));
        if let Front::Held(held) = self.take_front() {
            let (claim, reports) = held.turn.into_claim();
            self.release(claim, reports, cx);
        }
        self.front = Front::Free { stand_back_until };
    }

    /// No majority is known to have the key any more.
    fn lose_turn(&mut self, cx: &mut Cx<'_>) {
        let Front::Held(held) = &self.front else {
            return;
        };
        let claim = &held.turn.claim;
        let verdicts = cx.nodes.ids().map(|node| match claim.is_known(node) {
            true => Verdict::Ours,
            false => Verdict::NoLongerOurs,
        });
        let verdicts = verdicts.collect();
        self.end_under_holder(Loss::Lost { verdicts }, cx);
    }
}
