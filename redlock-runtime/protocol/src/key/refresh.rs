//! The round that keeps a turn going: renewals, extensions that a holder asks for, reports of
//! releases and new blocks of tokens are all the same question to the nodes.

use std::{sync::Arc, time::Duration};

use super::{
    Ask, Cx, Front, Key,
    attempt::unexpected,
    round::{Fanout, Round},
    turn::{BLOCK, Held, Report, TURN},
};
use crate::{
    action::{Release, Verdict},
    ask::RoundId,
    message::{AdmissionId, BlockRequest, NodeId, Owner, Reply, Request, RequestId},
    rules::{
        token::{Block, Token},
        validity::LockParams,
    },
    time::Instant,
};

impl Key {
    pub(super) fn refresh_if_due(&mut self, cx: &mut Cx<'_>) -> bool {
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
        let is_reported = !held.turn.reports.is_empty() && !held.turn.has_failed;
        let is_wanted = section.wants_extension || is_due(section.renew_at);
        (is_wanted || is_reported || is_due(ahead)) && self.refresh(cx)
    }

    /// Begins a round that lets the keys live for longer, and brings a new block if sections wait.
    pub(super) fn refresh(&mut self, cx: &mut Cx<'_>) -> bool {
        let now = cx.now();
        let Front::Held(held) = &mut self.front else {
            return false;
        };
        let Held { turn, section } = held;
        let section = section.as_mut();
        let next = self.queue.first().filter(|_| !turn.is_single);
        let params = [
            section.as_ref().map(|section| section.params),
            next.map(|next| next.params),
        ];
        let params = params.into_iter().flatten();
        let ttl = params.clone().map(|params| params.key_ttl()).max();
        // The holder must not lose its lease because the next waiter can wait for longer.
        let timeout = params.map(|params| params.round_timeout()).min();
        let Some((ttl, timeout)) = ttl.zip(timeout) else {
            return false;
        };
        if let Some(section) = section {
            section.renew_at = None;
        }
        let spare = next.map_or(Duration::ZERO, |_| TURN);
        let block = next.map(|_| {
            let proposal = turn.next_proposal(now);
            let length = BLOCK;
            BlockRequest { proposal, length }
        });
        let owner = turn.claim.owner;
        let may_have = |node: &NodeId| turn.claim.may_have(*node);
        let order: Vec<NodeId> = cx.nodes.ids().filter(may_have).collect();
        let count = order.len();
        let times = (now, now.after(timeout));
        let mut round = self.open_round(
            Fanout::new(order, cx.nodes.hedge_delay(now)),
            block,
            (ttl, spare),
            times,
            cx,
        );
        let nodes = round.reach(count);
        let Front::Held(held) = &mut self.front else {
            return false;
        };
        for node in cx.nodes.ids() {
            if !held.turn.claim.may_have(node) {
                round.on_verdict(node, Verdict::NoLongerOurs, now);
            }
        }
        round.is_repeated = held.turn.least_proposal != Token::default();
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
            (Reply::Extended { first, .. }, None) if first.is_none_or(Token::is_plausible) => {
                round.on_yes(node, first, now);
            }
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
    pub(super) fn on_refreshed(
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
        // Written by this client, so the nodes do not tell of later changes before it is read again.
        turn.watch_at.get_or_insert(now);
        if let Some(block) = block.filter(|block| block.lies_above(turn.token)) {
            turn.block = Some(block);
            turn.block_at = round.started;
        }
        answer_reports(&mut turn.reports, round.id, Release::Released, cx);
        if let Some(section) = section {
            let id = section.id;
            if let Some(answer) = section.on_extended(round.started) {
                cx.answer(id, answer);
            }
        }
        self.put_back_missing(cx);
        true
    }

    pub(super) fn on_refresh_failed(&mut self, cx: &mut Cx<'_>) -> bool {
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

    pub(super) fn answer_late_reports(&mut self, cx: &mut Cx<'_>) {
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
