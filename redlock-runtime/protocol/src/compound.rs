//! A section with several keys: all or none.
//!
//! It has one ordinary section, a *part*, for each key, and asks for all of them at the same time,
//! without waiting. If all are granted, that was one round. If one is refused, those behind it in the
//! order of names are let go, and once the section has those before it, it waits for the refused one as any
//! waiter does, and then asks for the others again. All sections wait in the same order, so no two ever wait for
//! each other; and of many that want the same keys one goes on while the others wait for the first.
//!
//! What it holds is in the way of others, so it has *patience* while it waits, and more whenever that was in
//! vain. Once it has none left, it lets all go, and waits for that key *alone*. In the queue of each key it is
//! before all that have called later: else it would begin at the end whenever it has let a key go.
//!
//! The token is the largest that any part was given. It is above all that were given for any of the
//! keys before, and every key is *raised*, by a round that extends it and takes numbers up to the token,
//! unless a round for it has taken them already: so all later tokens of each key are above it.
//!
//! The lease ends with the first of the parts. What ends one, ends all.

mod part;

use std::{ops::RangeBounds, sync::Arc, time::Duration};

pub use self::part::{Part, Stage, Step, Word};

use crate::{
    action::{Answer, Cause, Loss, Refusal, Release, Verdict},
    message::{Mode, SectionId},
    rules::{token::Token, validity::LockParams},
    time::Instant,
};

/// How long keys are held at first while another one is waited for: long enough for one that is free now and then.
/// Four times as long whenever another one was taken all the while.
const FIRST_PATIENCE: Duration = Duration::from_millis(16);

/// So often, to four seconds: many a key is in use for as long as that, and others wait for what is held in vain.
const MOST_STEPS: u32 = 4;

/// The raises of tokens before one attempt. One is enough unless rounds do not agree.
const MOST_RAISES: u32 = 8;

#[derive(Debug)]
pub struct Compound {
    pub params: LockParams,
    pub asked: Instant,
    pub parts: Vec<Part>,
    pub state: State,
    /// How often keys were held in vain.
    pub failures: u32,
    pub raises: u32,
    /// Of all parts so far.
    pub attempts: u32,
    /// The holder has asked for a fresh lease.
    pub is_extending: bool,
    /// When the lease ends, as far as the holder has been told.
    pub told: Instant,
    pub release: Release,
    pub steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// All that are not held are asked for, or those before one that was refused; or tokens of some are to rise.
    Asking,
    /// For the one that is asked for; those before it are held, or none is.
    Waiting,
    Held,
    /// Its lease has ended under the holder.
    Over,
    /// The caller waits to hear what became of its release.
    Ending,
    Ended,
}

impl Compound {
    /// Each key once.
    pub fn new(mut keys: Vec<Arc<str>>, params: LockParams, now: Instant) -> Self {
        keys.sort_unstable();
        keys.dedup();
        let part = |key| Part {
            key,
            section: None,
            stage: Stage::Idle,
        };
        let mut compound = Self {
            params,
            asked: now,
            parts: keys.into_iter().map(part).collect(),
            state: State::Asking,
            failures: 0,
            raises: 0,
            attempts: 0,
            is_extending: false,
            told: now,
            release: Release::Released,
            steps: Vec::new(),
        };
        compound.ask_for_the_rest();
        compound
    }

    pub fn take_steps(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.steps)
    }

    pub fn part(&mut self, part: usize) -> &mut Part {
        &mut self.parts[part]
    }

    /// The part whose section this is.
    pub fn part_of(&self, section: SectionId) -> Option<usize> {
        let mut parts = self.parts.iter();
        parts.position(|part| part.section == Some(section))
    }

    pub fn is_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Its caller has not let go.
    pub fn is_open(&self) -> bool {
        !matches!(self.state, State::Ending | State::Ended)
    }

    // ---- the caller

    pub fn on_extend(&mut self) {
        if self.state != State::Held {
            return;
        }
        self.is_extending = true;
        self.extend(|_, _| true, Token::default());
    }

    pub fn on_end(&mut self, report: bool, now: Instant) {
        let known = match self.state {
            State::Held if now < self.told => None,
            // What its parts have may last for longer: the caller was not told.
            State::Held | State::Over => Some(Release::AlreadyExpired),
            _ => Some(Release::Unknown),
        };
        let is_to_come = report && known.is_none();
        self.end(.., is_to_come);
        self.state = match is_to_come {
            true => State::Ending,
            false => State::Ended,
        };
        if let Some(release) = known.filter(|_| report) {
            self.answer(Answer::Released(release));
        }
    }

    /// It is refused unless it has begun.
    pub fn stop(&mut self) {
        if let State::Asking | State::Waiting = self.state {
            let mut parts = self.parts.iter();
            let missing = parts.position(|part| !part.is_held());
            let refusal = Refusal::without_verdicts(Cause::Stopped);
            self.refuse(missing.unwrap_or(0), refusal);
        }
    }

    // ---- parts

    pub fn on_answer(&mut self, part: usize, answer: Answer, reach: Option<Token>, now: Instant) {
        match answer {
            Answer::Granted {
                deadline,
                token,
                attempts,
            } => {
                self.attempts += attempts;
                self.parts[part].stage = Stage::Held {
                    deadline,
                    token,
                    reach: reach.unwrap_or(token),
                    is_asked: false,
                };
                if self.state == State::Waiting {
                    self.state = State::Asking;
                    // Most of the lease is for the section, however many keys were waited for.
                    let least = self.params.lease - self.params.lease / 4;
                    self.extend(|deadline, _| deadline.since(now) < least, Token::default());
                    self.ask_for_the_rest();
                }
                self.go_on(part, now);
            }
            Answer::Refused(refusal) => {
                self.attempts += refusal.attempts;
                self.parts[part].stage = Stage::Idle;
                self.on_refused(part, refusal, now);
            }
            Answer::Extended { deadline } => self.on_extended((part, now), deadline, reach),
            Answer::NotExtended { verdicts } => match self.state {
                State::Asking | State::Waiting => {
                    self.on_failed(part, no_quorum(verdicts), now);
                }
                State::Held if self.told <= now => {
                    self.on_over(part, Loss::Expired { verdicts }, now);
                }
                State::Held if self.is_extending => {
                    self.is_extending = false;
                    self.answer(Answer::NotExtended { verdicts });
                }
                _ => {}
            },
            Answer::Over(loss) => self.on_over(part, loss, now),
            Answer::Released(release) => self.on_released(part, release),
        }
    }

    fn on_extended(
        &mut self,
        (part, now): (usize, Instant),
        extended: Instant,
        raised: Option<Token>,
    ) {
        let one = &mut self.parts[part];
        if let Stage::Held {
            deadline,
            reach,
            is_asked,
            ..
        } = &mut one.stage
        {
            *deadline = extended;
            *reach = raised.map_or(*reach, |raised| raised.max(*reach));
            *is_asked = false;
        }
        match self.state {
            State::Asking => self.go_on(part, now),
            // Its parts may have been extended one after the other, and the last of them too late.
            State::Held if self.told <= now => {
                let verdicts = Vec::new();
                self.on_over(part, Loss::Expired { verdicts }, now);
            }
            State::Held if !(self.is_extending && self.is_asking()) => {
                self.is_extending = false;
                if let Some(deadline) = self.deadline() {
                    self.told = deadline;
                    self.answer(Answer::Extended { deadline });
                }
            }
            _ => {}
        }
    }

    /// The first key that is missing is waited for once those before it are held. If none is, the last part,
    /// which has just had its answer, fails if that was in vain.
    fn go_on(&mut self, last: usize, now: Instant) {
        let mut parts = self.parts.iter();
        match parts.position(|part| !part.is_held()) {
            None => self.begin_if_raised(last, now),
            Some(first) if matches!(self.parts[first].stage, Stage::Idle) => {
                self.wait_for(first, now);
            }
            Some(_) => {}
        }
    }

    fn begin_if_raised(&mut self, last: usize, now: Instant) {
        if self.is_asking() {
            return;
        }
        let token = self.parts.iter().filter_map(Part::token).max();
        let Some((token, deadline)) = token.zip(self.deadline()) else {
            return;
        };
        self.raises += 1;
        if deadline.since(now) < self.params.min_validity || self.raises > MOST_RAISES {
            return self.on_failed(last, no_quorum(Vec::new()), now);
        }
        self.extend(|_, reach| reach < token, token);
        if self.is_asking() {
            return;
        }
        for part in 0..self.parts.len() {
            let what = Word::Begin {
                token,
                max_hold: self.params.max_hold,
            };
            self.steps.push(Step::Tell { part, what });
        }
        self.state = State::Held;
        self.told = deadline;
        self.answer(Answer::Granted {
            deadline,
            token,
            attempts: self.attempts,
        });
    }

    /// One is taken.
    fn on_refused(&mut self, part: usize, refusal: Refusal, now: Instant) {
        match self.state {
            State::Asking if !self.is_last(&refusal, now) => {
                self.end(part + 1.., false);
                self.go_on(part, now);
            }
            _ => self.on_failed(part, refusal, now),
        }
    }

    /// What was granted is of no use.
    fn on_failed(&mut self, part: usize, refusal: Refusal, now: Instant) {
        if self.is_last(&refusal, now) {
            return self.refuse(part, refusal);
        }
        self.failures += u32::from(refusal.is_contended());
        self.raises = 0;
        self.end(.., false);
        self.wait_for(part, now);
    }

    fn is_last(&self, refusal: &Refusal, now: Instant) -> bool {
        now >= self.wait_until() || refusal.cause == Cause::Stopped
    }

    fn on_over(&mut self, part: usize, loss: Loss, now: Instant) {
        match self.state {
            State::Asking | State::Waiting => {
                let refusal = match loss {
                    Loss::Stopped => Refusal::without_verdicts(Cause::Stopped),
                    Loss::Lost { verdicts } | Loss::Expired { verdicts } => no_quorum(verdicts),
                };
                self.on_failed(part, refusal, now);
            }
            State::Held => {
                self.state = State::Over;
                self.is_extending = false;
                // A holder that does not let go must not keep the others for longer than their leases.
                for part in 0..self.parts.len() {
                    let what = Word::StopRenewing;
                    self.steps.push(Step::Tell { part, what });
                }
                self.answer(Answer::Over(loss));
            }
            State::Over | State::Ending | State::Ended => {}
        }
    }

    fn on_released(&mut self, part: usize, release: Release) {
        self.parts[part].stage = Stage::Idle;
        self.release = match (self.release, release) {
            (Release::AlreadyExpired, _) | (_, Release::AlreadyExpired) => Release::AlreadyExpired,
            (Release::Unknown, _) | (_, Release::Unknown) => Release::Unknown,
            _ => Release::Released,
        };
        let is_idle = |part: &Part| matches!(part.stage, Stage::Idle);
        if self.state == State::Ending && self.parts.iter().all(is_idle) {
            self.state = State::Ended;
            self.answer(Answer::Released(self.release));
        }
    }

    // ---- what they have in common

    fn wait_until(&self) -> Instant {
        self.asked.after(self.params.wait)
    }

    fn ask_for_the_rest(&mut self) {
        for part in 0..self.parts.len() {
            if matches!(self.parts[part].stage, Stage::Idle) {
                self.ask(part, Duration::ZERO);
            }
        }
    }

    fn wait_for(&mut self, part: usize, now: Instant) {
        self.state = State::Waiting;
        let rest = self.wait_until().since(now);
        let wait = match self.has_any() {
            true => self.patience().min(rest),
            false => rest,
        };
        self.ask(part, wait);
    }

    /// How long keys are held while another one is waited for: so short that their leases do not end.
    fn patience(&self) -> Duration {
        let longest = FIRST_PATIENCE * 4_u32.pow(self.failures.min(MOST_STEPS));
        longest.min(self.params.lease / 4)
    }

    fn ask(&mut self, part: usize, wait: Duration) {
        self.parts[part].stage = Stage::Asked;
        let params = LockParams {
            wait,
            // What is let go because another key is taken must not be kept.
            at_least: Duration::ZERO,
            // It counts from when all are held.
            max_hold: None,
            // Tokens of several keys rise for one section at a time.
            mode: Mode::Exclusive,
            is_fair: false,
            ..self.params
        };
        self.steps.push(Step::Ask { part, params });
    }

    /// Extends the parts that need it, by when their leases end and up to where the nodes give no token.
    fn extend(&mut self, needs_it: impl Fn(Instant, Token) -> bool, to: Token) {
        for (part, one) in self.parts.iter_mut().enumerate() {
            if let Stage::Held {
                deadline,
                reach,
                is_asked,
                ..
            } = &mut one.stage
                && needs_it(*deadline, *reach)
            {
                *is_asked = true;
                let what = Word::Extend { reach: to };
                self.steps.push(Step::Tell { part, what });
            }
        }
    }

    /// Ends those parts. With `report` they are idle once they have reported.
    fn end(&mut self, parts: impl RangeBounds<usize>, report: bool) {
        for (part, one) in self.parts.iter_mut().enumerate() {
            if matches!(one.stage, Stage::Idle) || !parts.contains(&part) {
                continue;
            }
            if !report {
                one.stage = Stage::Idle;
            }
            let what = Word::End { report };
            self.steps.push(Step::Tell { part, what });
        }
    }

    fn refuse(&mut self, part: usize, refusal: Refusal) {
        self.end(.., false);
        self.state = State::Ended;
        self.answer(Answer::Refused(Refusal {
            key: Some(Arc::clone(&self.parts[part].key)),
            attempts: self.attempts,
            ..refusal
        }));
    }

    fn answer(&mut self, answer: Answer) {
        self.steps.push(Step::Answer(answer));
    }

    /// When the first lease ends, if all parts have one.
    fn deadline(&self) -> Option<Instant> {
        let deadlines = self.parts.iter().map(|part| match part.stage {
            Stage::Held { deadline, .. } => Some(deadline),
            Stage::Idle | Stage::Asked => None,
        });
        deadlines.min().flatten()
    }

    fn has_any(&self) -> bool {
        self.parts.iter().any(Part::is_held)
    }

    /// Some part has not answered what it was asked while it is held.
    fn is_asking(&self) -> bool {
        let is_asked = |part: &Part| matches!(part.stage, Stage::Held { is_asked: true, .. });
        self.parts.iter().any(is_asked)
    }
}

fn no_quorum(verdicts: Vec<Verdict>) -> Refusal {
    Refusal {
        verdicts,
        ..Refusal::without_verdicts(Cause::NoQuorum)
    }
}

#[cfg(test)]
mod tests;
