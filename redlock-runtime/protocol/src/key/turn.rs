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

use std::{sync::Arc, time::Duration};

use super::{
    Ask, Claim, Cx, Front, Key, Waiter,
    attempt::unexpected,
    round::{Fanout, Progress, Round, RoundId},
    waiting::stand_back_for,
};
use crate::{
    action::{Answer, Loss, Release, Verdict},
    message::{AdmissionId, BlockRequest, NodeId, Owner, Reply, Request, RequestId, SectionId},
    rules::{
        backoff::jitter,
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

/// Most sections are shorter, and need no watching.
const WATCH_AFTER: Duration = Duration::from_millis(20);

/// A failed renewal is tried again after a quarter of what is left of the lease, but not sooner
/// than this, so that a lease near its end does not turn into a busy loop.
const RENEWAL_FLOOR: Duration = Duration::from_millis(10);

/// The turn, and the section that has the lock now.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) turn: Turn,
    pub(super) section: Option<Section>,
}

#[derive(Debug)]
pub(super) struct Turn {
    claim: Claim,
    began: Instant,
    /// Before the first request of the last won round.
    won_at: Instant,
    /// How long that round lets the keys live.
    ttl: Duration,
    block: Option<Block>,
    /// Before the first request of the round that brought the block.
    block_at: Instant,
    /// The last token that was handed out.
    token: Token,
    refresh: Option<Round>,
    /// The last round that was begun, when, and how long it lets the keys live.
    last_round: RoundId,
    last_ttl: (Instant, Duration, Duration),
    /// What to propose at the least, after a disagreement.
    least_proposal: Token,
    /// The last refresh found no majority.
    has_failed: bool,
    /// Callers that have let go and want to know whether a majority still had the key.
    reports: Vec<Report>,
    has_remote_waiter: bool,
    /// How long its first round took.
    took: Duration,
}

/// A caller that waits to hear what became of its release.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) section: SectionId,
    /// Then the answer is `Unknown`.
    pub(super) by: Instant,
    /// Only rounds that began later tell.
    after: RoundId,
}

/// A critical section while its holder has the lock.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) id: SectionId,
    params: LockParams,
    pub(super) deadline: Instant,
    /// From when `max_hold` counts.
    acquired: Instant,
    granted: Instant,
    /// From one renewal to the next.
    renew_every: Option<Duration>,
    renew_at: Option<Instant>,
    /// The holder has asked for a fresh lease.
    wants_extension: bool,
    /// When to read the key on all nodes; `None` once it has been read.
    watch_at: Option<Instant>,
    /// What each node said in the last round that did not extend the lease.
    failed: Vec<Verdict>,
}

impl Held {
    /// The turn that a won attempt begins.
    pub(super) fn begin(
        claim: Claim,
        round: &Round,
        block: Option<Block>,
        has_remote_waiter: bool,
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
        let acquired = turn.won_at;
        let deadline = params.deadline(acquired, acquired);
        // Up to an eighth sooner than asked for, each lock by its own part: so that thousands which
        // were acquired at once are not for ever renewed at once.
        let owner = turn.claim.owner.0;
        let renew_every = params
            .renew
            .map(|interval| interval - jitter(interval / 8, owner));
        self.section = Some(Section {
            id,
            params,
            deadline,
            acquired,
            granted: cx.now(),
            renew_every,
            renew_at: renew_every.map(|interval| acquired.after(interval)),
            wants_extension: false,
            watch_at: Some(cx.now().after(WATCH_AFTER)),
            failed: Vec::new(),
        });
        cx.answer(id, Answer::Granted { deadline, token });
    }

    pub(super) fn has_section(&self, section: SectionId) -> bool {
        self.section.as_ref().is_some_and(|held| held.id == section)
    }

    pub(super) fn is_watched(&self) -> bool {
        let section = self.section.as_ref();
        section.is_some_and(|section| section.watch_at.is_none())
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
        let section = self.section.as_ref().map(Section::next_due);
        let ahead = next
            .filter(|_| turn.refresh.is_none())
            .and_then(|next| self.refresh_ahead_at(next));
        let dues = [round, report, section, ahead];
        dues.into_iter().flatten().min()
    }

    /// When to refresh the turn so that the next section need not wait for it. Not while a section
    /// runs for longer than a block stays young: then it is refreshed once that is over.
    fn refresh_ahead_at(&self, next: &Waiter) -> Option<Instant> {
        let section = self.section.as_ref()?;
        let fresh = next.params.freshness();
        let at = self.turn.block_at.after(fresh / 2);
        let is_short = at < section.granted.after(fresh) && at < section.deadline;
        (is_short && !self.turn.has_failed && !self.turn.has_had_its_share(at)).then_some(at)
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

    /// Another process waits, and this one has had the lock for long enough.
    fn has_had_its_share(&self, now: Instant) -> bool {
        self.has_remote_waiter && now.since(self.began) >= TURN
    }

    /// The end of the turn. What is left is to be released.
    pub(super) fn into_claim(self) -> (Claim, Vec<Report>) {
        (self.claim, self.reports)
    }
}

impl Section {
    fn next_due(&self) -> Instant {
        let dues = [self.renew_at, self.watch_at];
        dues.into_iter().flatten().fold(self.deadline, Instant::min)
    }

    /// A round that was started then has let the keys live for longer.
    fn on_extended(&mut self, started: Instant, now: Instant) -> Option<Answer> {
        // Written by this client, so the nodes do not tell of later changes before it is read again.
        self.watch_at.get_or_insert(now);
        if self.renew_every.is_none() && !self.wants_extension {
            return None;
        }
        self.wants_extension = false;
        self.failed.clear();
        self.renew_at = self.renew_every.map(|interval| started.after(interval));
        // Never shorter than before: a cap by `max_hold` may have left nothing to add.
        let deadline = self.params.deadline(started, self.acquired);
        self.deadline = self.deadline.max(deadline);
        let deadline = self.deadline;
        Some(Answer::Extended { deadline })
    }

    /// A round found no majority. What the holder is told, if it asked.
    fn on_not_extended(&mut self, verdicts: Vec<Verdict>, now: Instant) -> Option<Answer> {
        if self.renew_every.is_some() {
            let pause = (self.deadline.since(now) / 4).max(RENEWAL_FLOOR);
            self.renew_at = Some(now.after(pause));
        }
        self.failed = verdicts;
        let asked = std::mem::take(&mut self.wants_extension);
        asked.then(|| Answer::NotExtended {
            verdicts: self.failed.clone(),
        })
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
        let Front::Held(held) = &self.front else {
            return true;
        };
        if held.section.is_none() {
            return self.next_section(is_just_won, cx);
        }
        self.watch_if_due(cx);
        self.refresh_if_due(cx)
    }

    /// No section has the lock. True if that has changed, or the turn has ended.
    fn next_section(&mut self, is_just_won: bool, cx: &mut Cx<'_>) -> bool {
        let now = cx.now();
        let Front::Held(held) = &mut self.front else {
            return false;
        };
        let turn = &mut held.turn;
        let is_over = turn.has_had_its_share(now) || cx.out.settings.mixed_fleet;
        let next = self.queue.first().filter(|_| !is_over);
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
            Front::Held(held) if held.turn.has_remote_waiter || cx.out.settings.mixed_fleet => {
                Some(held.turn.took)
            }
            _ => None,
        };
        let stand_back_until = stands_back.map(|round| cx.out.now.after(stand_back_for(round, cx)));
        let free = Front::Free { stand_back_until };
        if let Front::Held(held) = std::mem::replace(&mut self.front, free) {
            let (claim, reports) = held.turn.into_claim();
            self.release(claim, reports, cx);
        }
    }

    /// No majority is known to have the key any more.
    fn lose_turn(&mut self, cx: &mut Cx<'_>) {
        let Front::Held(held) = &mut self.front else {
            return;
        };
        let is_refused = held
            .turn
            .refresh
            .as_ref()
            .filter(|round| round.is_refused());
        if let Some(round) = is_refused.map(|round| round.id) {
            answer_reports(&mut held.turn.reports, round, Release::AlreadyExpired, cx);
        }
        let claim = &held.turn.claim;
        let verdicts = cx.nodes.ids().map(|node| match claim.is_known(node) {
            true => Verdict::Ours,
            false => Verdict::NoLongerOurs,
        });
        let verdicts = verdicts.collect();
        self.end_under_holder(Loss::Lost { verdicts }, cx);
    }

    // ---- refreshing

    fn refresh_if_due(&mut self, cx: &mut Cx<'_>) -> bool {
        let now = cx.now();
        let Front::Held(held) = &self.front else {
            return false;
        };
        let (Some(section), None) = (&held.section, &held.turn.refresh) else {
            return false;
        };
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let ahead = self
            .queue
            .first()
            .and_then(|next| held.refresh_ahead_at(next));
        let is_ahead = is_due(ahead) && !cx.out.settings.mixed_fleet;
        let is_reported = !held.turn.reports.is_empty() && !held.turn.has_failed;
        let is_wanted = section.wants_extension || is_due(section.renew_at);
        (is_wanted || is_reported || is_ahead) && self.refresh(cx)
    }

    /// Begins a round that lets the keys live for longer, and brings a new block if sections wait.
    fn refresh(&mut self, cx: &mut Cx<'_>) -> bool {
        let now = cx.now();
        let Front::Held(held) = &mut self.front else {
            return false;
        };
        let Held { turn, section } = held;
        let section = section.as_mut();
        let next = self.queue.first().filter(|_| !cx.out.settings.mixed_fleet);
        let params = [
            section.as_ref().map(|section| section.params),
            next.map(|next| next.params),
        ];
        let params = params.into_iter().flatten();
        let Some(params) = params.max_by_key(LockParams::key_ttl) else {
            return false;
        };
        if let Some(section) = section {
            section.renew_at = None;
        }
        let spare = next.map_or(Duration::ZERO, |_| TURN);
        let block = next.map(|_| {
            let proposal = Token((cx.out.env.wall_micros)().min(Token::LARGEST.0 / 2));
            let proposal = proposal.max(turn.least_proposal);
            let proposal = proposal.max(Token(turn.token.0 + 1));
            let length = BLOCK;
            BlockRequest { proposal, length }
        });
        let owner = turn.claim.owner;
        let may_have = |node: &NodeId| turn.claim.may_have(*node);
        let order: Vec<NodeId> = cx.nodes.ids().filter(may_have).collect();
        let count = order.len();
        let ttl = params.key_ttl();
        let times = (now, now.after(params.round_timeout()));
        let mut round = self.open_round(Fanout::new(order, ttl), block, (ttl, spare), times, cx);
        let nodes = round.reach(count);
        let Front::Held(held) = &mut self.front else {
            return false;
        };
        for node in cx.nodes.ids() {
            if !held.turn.claim.may_have(node) {
                round.on_verdict(node, Verdict::NoLongerOurs, now);
            }
        }
        held.turn.last_round = round.id;
        held.turn.last_ttl = (now, ttl, spare);
        held.turn.has_failed = false;
        held.turn.claim.raise_ttl(ttl + spare);
        self.ask_to_extend(&mut round, owner, &nodes, cx);
        if let Front::Held(held) = &mut self.front {
            held.turn.refresh = Some(round);
        }
        true
    }

    pub(super) fn ask_to_extend(
        &self,
        round: &mut Round,
        owner: Owner,
        nodes: &[NodeId],
        cx: &mut Cx<'_>,
    ) {
        for &node in nodes {
            let body = Request::Extend {
                key: Arc::clone(&self.name),
                owner,
                ttl: round.ttl,
                spare: round.spare,
                block: round.block,
                admission: AdmissionId(0),
            };
            let ask = Ask::Extend(round.id, owner);
            if let Err(verdict) = cx.nodes.ask(node, (self.id, ask), body, &mut cx.out) {
                round.on_verdict(node, verdict, cx.out.now);
            }
        }
    }

    pub(super) fn on_extension(
        &mut self,
        (node, request): (NodeId, RequestId),
        (id, owner): (RoundId, Owner),
        reply: Reply,
        cx: &mut Cx<'_>,
    ) {
        let now = cx.now();
        let Some(params) = self.params_in_front() else {
            return;
        };
        let written = self.written_by(id);
        let Some(claim) = self.claim_of(owner) else {
            return;
        };
        // Also after the round has been decided: else the clock of a node that is always the last to
        // reply was never looked at.
        let mut lead = None;
        match (&reply, written) {
            (Reply::NotOwner, _) => claim.on_absent(node, request),
            (Reply::Extended { remaining, .. }, Some(written)) => {
                lead = claim.on_extended(node, written, *remaining, &params, now);
            }
            _ => {}
        }
        if let Reply::Extended {
            has_remote_waiter: true,
            ..
        } = reply
        {
            self.on_remote_waiter(owner);
        }
        if let Some(by) = lead {
            cx.nodes.suspend(node, by, &mut cx.out);
        }
        let Some(round) = self.round(id) else { return };
        match (reply, lead) {
            (_, Some(by)) => round.on_verdict(node, Verdict::ClockAhead { by }, now),
            (Reply::Extended { first, .. }, None) => round.on_yes(node, first, now),
            (Reply::NotOwner, None) => round.on_verdict(node, Verdict::NoLongerOurs, now),
            (reply, None) => round.on_verdict(node, unexpected(reply), now),
        }
    }

    /// When the last round was begun, and how long it lets the keys live.
    fn written_by(&mut self, id: RoundId) -> Option<(Instant, Duration, Duration)> {
        if let Front::Held(held) = &self.front {
            return (held.turn.last_round == id).then_some(held.turn.last_ttl);
        }
        let round = self.round(id)?;
        Some((round.started, round.ttl, round.spare))
    }

    /// A majority has let the keys live for longer. True: a section can begin with it.
    fn on_refreshed(
        &mut self,
        block: Option<Block>,
        proposal: Option<Token>,
        cx: &mut Cx<'_>,
    ) -> bool {
        let now = cx.now();
        let Front::Held(held) = &mut self.front else {
            return false;
        };
        let Held { turn, section } = held;
        let Some(round) = turn.refresh.take() else {
            return false;
        };
        turn.won_at = round.started;
        turn.ttl = round.ttl;
        turn.least_proposal = proposal.unwrap_or_default();
        if let Some(block) = block.filter(|block| block.lies_above(turn.token)) {
            turn.block = Some(block);
            turn.block_at = round.started;
        }
        answer_reports(&mut turn.reports, round.id, Release::Released, cx);
        if let Some(section) = section {
            let id = section.id;
            if let Some(answer) = section.on_extended(round.started, now) {
                cx.answer(id, answer);
            }
        }
        self.put_back_missing(cx);
        true
    }

    fn on_refresh_failed(&mut self, cx: &mut Cx<'_>) -> bool {
        let now = cx.now();
        let Front::Held(held) = &mut self.front else {
            return false;
        };
        let Some(round) = held.turn.refresh.take() else {
            return false;
        };
        held.turn.has_failed = true;
        if let Some(section) = &mut held.section {
            let id = section.id;
            if let Some(answer) = section.on_not_extended(round.into_verdicts(), now) {
                cx.answer(id, answer);
            }
        }
        false
    }

    fn answer_late_reports(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        if let Front::Held(held) = &mut self.front {
            held.turn.reports.retain(|report| {
                if report.by <= now {
                    cx.released(report.section, Release::Unknown);
                }
                now < report.by
            });
        }
    }

    // ---- the key on all nodes

    fn watch_if_due(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        let Front::Held(Held { turn, section }) = &mut self.front else {
            return;
        };
        let watch_at = section.as_mut().map(|section| &mut section.watch_at);
        let due = watch_at.and_then(|at| at.take_if(|at| *at <= now));
        if due.is_none() {
            return;
        }
        for node in cx.nodes.ids() {
            if turn.claim.may_have(node) {
                Self::watch(self.id, &self.name, &mut turn.claim, node, cx);
            }
        }
        self.put_back_missing(cx);
    }

    pub(super) fn on_watched(
        &mut self,
        (node, request): (NodeId, RequestId),
        owner: Owner,
        reply: &Reply,
        cx: &mut Cx<'_>,
    ) {
        let (id, name) = (self.id, Arc::clone(&self.name));
        let Some(claim) = self.claim_of(owner) else {
            return;
        };
        match reply {
            Reply::Ours => claim.on_known(node),
            Reply::Taken { .. } | Reply::Free => claim.on_absent(node, request),
            _ => {}
        }
        if claim.end_read(node) {
            Self::watch(id, &name, claim, node, cx);
        }
    }

    /// Sets the key on nodes that have nothing of it: they could not be reached, or were not asked,
    /// or have lost it.
    fn put_back_missing(&mut self, cx: &mut Cx<'_>) {
        for node in cx.nodes.ids() {
            if let Front::Held(held) = &self.front
                && !held.turn.claim.may_have(node)
            {
                self.put_back(node, cx);
            }
        }
    }

    /// Sets the key on a node that votes, unless it is there. Gives no vote; the next extension may
    /// count it.
    pub(super) fn put_back(&mut self, node: NodeId, cx: &mut Cx<'_>) {
        let Front::Held(Held {
            turn,
            section: Some(_),
        }) = &mut self.front
        else {
            return;
        };
        if !cx.nodes.is_up(node) {
            return;
        }
        let (owner, ttl) = (turn.claim.owner, turn.ttl);
        let body = Request::PutBack {
            key: Arc::clone(&self.name),
            owner,
            ttl,
            admission: AdmissionId(0),
        };
        let request = cx.nodes.next_request();
        let ask = (self.id, Ask::PutBack(owner));
        if cx.nodes.ask(node, ask, body, &mut cx.out).is_ok() {
            turn.claim.on_asked(node, request, ttl, cx.out.now);
        }
    }

    pub(super) fn on_put_back(
        &mut self,
        (node, request): (NodeId, RequestId),
        owner: Owner,
        reply: &Reply,
        cx: &mut Cx<'_>,
    ) {
        let is_watched = matches!(&self.front, Front::Held(held) if held.is_watched());
        let (id, name) = (self.id, Arc::clone(&self.name));
        let Some(claim) = self.claim_of(owner) else {
            return;
        };
        match reply {
            Reply::PutBack => {
                claim.on_put_back(node);
                if is_watched {
                    Self::watch(id, &name, claim, node, cx);
                }
            }
            Reply::Held { .. }
            | Reply::Refused {
                is_untouched: true, ..
            } => claim.on_absent(node, request),
            _ => {}
        }
    }

    /// What the section asks for that has the lock, or the one that is about to.
    fn params_in_front(&self) -> Option<LockParams> {
        match &self.front {
            Front::Acquiring(attempt) => Some(attempt.waiter.params),
            Front::Held(held) => {
                let section = held.section.as_ref().map(|section| section.params);
                section.or_else(|| self.queue.first().map(|next| next.params))
            }
            Front::Free { .. } | Front::BackingOff(_) => None,
        }
    }
}

/// Answers the callers that let go before this round began.
fn answer_reports(reports: &mut Vec<Report>, round: RoundId, release: Release, cx: &mut Cx<'_>) {
    reports.retain(|report| {
        let is_told = report.after < round;
        if is_told {
            cx.released(report.section, release);
        }
        !is_told
    });
}
