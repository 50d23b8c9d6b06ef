//! A section with several keys: all or none.
//!
//! It has one ordinary section, a *part*, for each key, and asks for all of them at the same time,
//! without waiting. If all are granted, that was one round. If one is refused, what was granted of the
//! others is released at once; then the section waits for the refused key *alone*, as any waiter does,
//! and asks for the others without waiting once it has that. So nothing is held while another key is
//! waited for, and no order of keys can make two sections wait for each other. Two that take keys from
//! each other in turns are parted by random pauses, which grow.
//!
//! The token is the largest that any part was given. It is above all that were given for any of the
//! keys before, and every key is *raised*, by a round that extends it and takes numbers up to the token,
//! unless a round for it has taken them already: so all later tokens of each key are above it.
//!
//! The lease ends with the first of the parts. What ends one, ends all.

mod part;

use std::{sync::Arc, time::Duration};

pub use self::part::{Part, Stage, Step, Word};

use crate::{
    action::{Answer, Cause, Loss, Refusal, Release, Verdict},
    message::{Mode, SectionId},
    rules::{backoff::jitter, token::Token, validity::LockParams},
    time::Instant,
};

/// The first pause after two keys in a row were taken, at the most; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(4);

/// So many doublings, to a second. Of 68 callers for the same two keys, none got both for seconds while
/// it ended at 128 ms: at any time some had one key and some the other. So all are served in five seconds.
const MOST_DOUBLINGS: u32 = 8;

/// The raises of tokens before one attempt. One is enough unless rounds do not agree.
const MOST_RAISES: u32 = 8;

#[derive(Debug)]
pub struct Compound {
    pub params: LockParams,
    pub wait_until: Instant,
    pub parts: Vec<Part>,
    pub state: State,
    /// How often a key was refused.
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
    /// All are asked for, or one that is waited for alone, or tokens of some are to rise.
    Asking,
    /// Then this one is waited for.
    Pausing {
        until: Instant,
        part: usize,
    },
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
            wait_until: now.after(params.wait),
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

    /// When it goes on by itself.
    pub fn next_due(&self) -> Option<Instant> {
        match self.state {
            State::Pausing { until, .. } => Some(until),
            _ => None,
        }
    }

    // ---- the caller

    pub fn on_extend(&mut self) {
        if self.state != State::Held {
            return;
        }
        self.is_extending = true;
        for (part, one) in self.parts.iter_mut().enumerate() {
            if let Stage::Held { is_asked, .. } = &mut one.stage {
                *is_asked = true;
                self.steps.push(Step::Tell {
                    part,
                    what: Word::Extend {
                        reach: Token::default(),
                    },
                });
            }
        }
    }

    pub fn on_end(&mut self, report: bool, now: Instant) {
        let known = match self.state {
            State::Held if now < self.told => None,
            // What its parts have may last for longer: the caller was not told.
            State::Held | State::Over => Some(Release::AlreadyExpired),
            _ => Some(Release::Unknown),
        };
        let is_to_come = report && known.is_none();
        self.end_all(is_to_come);
        self.state = match is_to_come {
            true => State::Ending,
            false => State::Ended,
        };
        if let Some(release) = known.filter(|_| report) {
            self.answer(Answer::Released(release));
        }
    }

    /// Nothing new is begun.
    pub fn stop(&mut self) {
        if let State::Pausing { .. } = self.state {
            self.refuse(Refusal::without_verdicts(Cause::Stopped));
        }
    }

    // ---- time

    pub fn advance(&mut self, now: Instant) {
        if let State::Pausing { until, part } = self.state
            && until <= now
        {
            self.wait_for(part, now);
        }
    }

    // ---- parts

    pub fn on_answer(
        &mut self,
        part: usize,
        answer: Answer,
        reach: Option<Token>,
        (now, random): (Instant, u128),
    ) {
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
                // There is a rest if it was waited for.
                self.ask_for_the_rest();
                self.begin_if_raised((part, now, random));
            }
            Answer::Refused(refusal) => {
                self.attempts += refusal.attempts;
                self.parts[part].stage = Stage::Idle;
                self.on_failed(part, refusal, (now, random));
            }
            Answer::Extended { deadline } => self.on_extended((part, now, random), deadline, reach),
            Answer::NotExtended { verdicts } => match self.state {
                State::Asking => self.on_failed(part, no_quorum(verdicts), (now, random)),
                State::Held if self.is_extending => {
                    self.is_extending = false;
                    self.answer(Answer::NotExtended { verdicts });
                }
                _ => {}
            },
            Answer::Over(loss) => self.on_over(part, loss, (now, random)),
            Answer::Released(release) => self.on_released(part, release),
        }
    }

    fn on_extended(
        &mut self,
        (part, now, random): (usize, Instant, u128),
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
            State::Asking => self.begin_if_raised((part, now, random)),
            // Its parts may have been extended one after the other, and the last of them too late.
            State::Held if self.told <= now => {
                let verdicts = Vec::new();
                self.on_over(part, Loss::Expired { verdicts }, (now, random));
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

    /// If all parts have their keys, the last of them, which has just had its answer, fails if that was in
    /// vain.
    fn begin_if_raised(&mut self, (last, now, random): (usize, Instant, u128)) {
        if self.is_asking() {
            return;
        }
        let token = self.parts.iter().filter_map(Part::token).max();
        let Some((token, deadline)) = token.zip(self.deadline()) else {
            return;
        };
        self.raises += 1;
        if deadline.since(now) < self.params.min_validity || self.raises > MOST_RAISES {
            return self.on_failed(last, no_quorum(Vec::new()), (now, random));
        }
        for (part, one) in self.parts.iter_mut().enumerate() {
            if let Stage::Held {
                reach, is_asked, ..
            } = &mut one.stage
                && *reach < token
            {
                *is_asked = true;
                let what = Word::Extend { reach: token };
                self.steps.push(Step::Tell { part, what });
            }
        }
        if self.is_asking() {
            return;
        }
        for part in 0..self.parts.len() {
            let what = Word::SettleToken(token);
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

    /// One could not be had, or was lost before all were there.
    fn on_failed(&mut self, part: usize, refusal: Refusal, (now, random): (Instant, u128)) {
        let refusal = Refusal {
            key: Some(Arc::clone(&self.parts[part].key)),
            attempts: self.attempts,
            ..refusal
        };
        if now >= self.wait_until || refusal.cause == Cause::Stopped {
            return self.refuse(refusal);
        }
        self.end_all(false);
        self.failures += 1;
        self.raises = 0;
        if self.failures < 2 {
            return self.wait_for(part, now);
        }
        let longest = FIRST_PAUSE * (1 << (self.failures - 2).min(MOST_DOUBLINGS));
        let until = now.after(jitter(longest, random)).min(self.wait_until);
        self.state = State::Pausing { until, part };
        self.advance(now);
    }

    fn on_over(&mut self, part: usize, loss: Loss, (now, random): (Instant, u128)) {
        match self.state {
            State::Asking => {
                let refusal = match loss {
                    Loss::Stopped => Refusal::without_verdicts(Cause::Stopped),
                    Loss::Lost { verdicts } | Loss::Expired { verdicts } => no_quorum(verdicts),
                };
                self.on_failed(part, refusal, (now, random));
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
            State::Pausing { .. } | State::Over | State::Ending | State::Ended => {}
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

    fn ask_for_the_rest(&mut self) {
        for part in 0..self.parts.len() {
            if matches!(self.parts[part].stage, Stage::Idle) {
                self.ask(part, Duration::ZERO);
            }
        }
    }

    fn wait_for(&mut self, part: usize, now: Instant) {
        self.state = State::Asking;
        self.ask(part, self.wait_until.since(now));
    }

    fn ask(&mut self, part: usize, wait: Duration) {
        self.parts[part].stage = Stage::Asked;
        let params = LockParams {
            wait,
            // What is let go because another key is taken must not be kept.
            at_least: Duration::ZERO,
            // Tokens of several keys rise for one section at a time.
            mode: Mode::Exclusive,
            is_fair: false,
            ..self.params
        };
        self.steps.push(Step::Ask { part, params });
    }

    /// Ends all parts that there are. With `report` they are idle once they have reported.
    fn end_all(&mut self, report: bool) {
        for (part, one) in self.parts.iter_mut().enumerate() {
            if matches!(one.stage, Stage::Idle) {
                continue;
            }
            if !report {
                one.stage = Stage::Idle;
            }
            let what = Word::End { report };
            self.steps.push(Step::Tell { part, what });
        }
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.end_all(false);
        self.state = State::Ended;
        self.answer(Answer::Refused(refusal));
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

    pub fn has_any(&self) -> bool {
        let is_held = |part: &Part| matches!(part.stage, Stage::Held { .. });
        self.parts.iter().any(is_held)
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
