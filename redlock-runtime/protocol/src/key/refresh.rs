//! The round that keeps a turn going: renewals, extensions that a holder asks for, reports of
//! releases and new blocks of tokens are all the same question to the nodes.

use std::{sync::Arc, time::Duration};

use super::{
    cx::Cx,
    few::Few,
    question::{Kind, Question},
    round::{Progress, Round},
    section::Section,
    turn::{Held, REJOIN},
};
use crate::{
    action::{Answer, Release},
    rules::{
        proposal::{BLOCK, next_block},
        token::{Block, Token},
        validity::LockParams,
    },
    time::Instant,
};

impl Held {
    /// When to refresh the turn while a section has the lock, if that is not being done.
    pub(super) fn refresh_at(&self, next: Option<&Arc<LockParams>>) -> Option<Instant> {
        if self.refresh.is_some() {
            return None;
        }
        let wanted = |section: &Section| {
            let asked = section.wanted.is_some() || section.has_new_note();
            let asked = asked.then_some(section.granted);
            [section.renew_at, asked].into_iter().flatten().min()
        };
        let last = self.sections.iter().max_by_key(|section| section.granted)?;
        let dues = [
            self.sections.iter().filter_map(wanted).min(),
            next.and_then(|next| self.refresh_ahead_at(last, next)),
            self.verify_at(last),
        ];
        dues.into_iter().flatten().min()
    }

    /// Begins a round that lets the keys live for longer, and brings a new block if a section waits.
    /// False if neither has a use for it.
    pub(super) fn refresh(&mut self, next: Option<&Arc<LockParams>>, cx: &mut Cx<'_>) -> bool {
        let now = cx.now();
        let next = next.filter(|_| !self.claim.is_single || self.is_shared());
        let params = self.sections.iter().map(|section| &section.params);
        let params = params.chain(next);
        // The holder must not lose its lease because the next waiter can wait for longer.
        let timeout = params.map(|params| params.round_timeout()).min();
        let asked = self.sections.iter().map(|section| section.asks(now));
        let longest = asked
            .chain(next.cloned())
            .max_by_key(|params| params.key_ttl());
        let Some((params, timeout)) = longest.zip(timeout) else {
            return false;
        };
        for section in self.sections.iter_mut() {
            // This round is the renewal; the next one is planned when it is won or has failed.
            section.renew_at = None;
        }
        let raises = self.sections.iter().map(|section| section.raise_to);
        let raise_to = raises.max().unwrap_or_default();
        let wants_block = next.is_some() || raise_to > Token::default();
        let block = wants_block.then(|| {
            // Above all that it was given, used or not.
            let had = self.block.last();
            let least = self.least_proposal.max(raise_to);
            // If nobody waits, the round only has to move the counters on.
            let length = next.map_or(1, |_| BLOCK);
            let elapsed = now.since(self.block_at);
            next_block(had, elapsed, (least, length), cx.wall_micros())
        });
        let hedge_delay = cx.nodes.hedge_delay();
        let note = self.sections.iter_mut().find_map(Section::asks_for_note);
        let question = Question {
            kind: Kind::Extend,
            spare: next.map_or(Duration::ZERO, |_| params.spare()),
            params,
            block,
            is_repeated: self.least_proposal > Token::default(),
            // Readers do not join while somebody waits to have the lock alone.
            leader: self
                .is_shared()
                .then(|| cx.nodes.leader(cx.name, |_| hedge_delay, now))
                .flatten(),
            ticket: None,
            note,
        };
        self.failed = Few::default();
        // Who asked while another round was under way hears no later for it.
        let wishes = self.sections.iter().flat_map(|section| &section.wanted);
        let since = wishes.map(|wish| wish.since).min();
        let closes_at = since.unwrap_or(now).after(timeout);
        let round = Round::extend(question, &mut self.claim, closes_at, cx);
        self.refresh = Some(Box::new(round));
        true
    }

    /// Takes in what has become of the refresh. True if it has just been won, so that a section can
    /// begin with it.
    pub(super) fn advance_refresh(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(mut round) = self.refresh.take() else {
            return false;
        };
        match round.progress(cx.now()) {
            Progress::Open | Progress::AskMore => {
                self.refresh = Some(round);
                return false;
            }
            Progress::Won(block) => self.on_refreshed(&round, block, Token::default(), cx),
            Progress::Disagrees => {
                let next = self.claim.after_disagreement(&round, cx);
                let least = next.map(|block| block.proposal).unwrap_or_default();
                self.on_refreshed(&round, None, least, cx);
            }
            Progress::Failed(_) => {
                self.on_refresh_failed(&round, cx);
                return false;
            }
        }
        true
    }

    /// A majority has let the keys live for longer.
    fn on_refreshed(
        &mut self,
        round: &Round,
        block: Option<Block>,
        least_proposal: Token,
        cx: &mut Cx<'_>,
    ) {
        if self.is_shared() {
            // It may have given up, and readers that wait must not wait for long ones to end.
            self.claim.has_remote_waiter = self.claim.is_waited_for;
        }
        // The lease counts from before the first request, as for an acquisition.
        self.won_at = round.started;
        // By the last round: on a busy machine the first one is too short a measure, and asking by it made it busier.
        self.took = cx.now().since(round.started).into();
        self.ttl = round.question.params.key_ttl().into();
        self.least_proposal = least_proposal;
        // Not so if a majority lies.
        let rises = |block: &Block| block.lies_above(self.block.last());
        if let Some(block) = block.filter(rises) {
            for section in self.sections.iter_mut() {
                if section.raise_to <= block.last() {
                    section.raise_to = Token::default();
                }
            }
            self.block = block;
            self.block_at = round.started;
        }
        // A majority still had the key when it was asked, so these sections had the lock to their end.
        self.reports.answer_before(round.id, Release::Released, cx);
        for section in self.sections.iter_mut() {
            let asked = &round.question.params;
            if let Some(answer) = section.on_extended(round.started, asked, self.claim.owner) {
                cx.answer(section.id, answer);
            }
        }
        // After the count: a key that is written now must not hide that it was gone.
        self.put_back_missing(cx);
    }

    fn on_refresh_failed(&mut self, round: &Round, cx: &mut Cx<'_>) {
        let now = cx.now();
        // Nodes that do not vote were not asked whether they still have the key, and those that have nothing
        // of it may be needed by the next round.
        self.look_at = Some(now);
        self.join_at = now.after(REJOIN);
        let verdicts = round.verdicts();
        for section in self.sections.iter_mut() {
            if section.on_not_extended(now) {
                let verdicts = verdicts.clone();
                cx.answer(section.id, Answer::NotExtended { verdicts });
            }
        }
        self.failed = verdicts.into();
    }
}
