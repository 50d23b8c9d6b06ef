//! A section with several keys: all or none.
//!
//! It has one ordinary section, a *part*, for each key, and asks for all of them at the same time, without
//! waiting, unless others are known to wait for one. If all are granted, that was one round. If one is
//! refused, or lost again, those behind it in the order of names are let go, and from there the section goes on
//! *in order*: it waits for the first key that is missing, as any waiter does and with what is left of its time,
//! then for the next one, and keeps what it has by renewals. All sections wait in the same order, so no two
//! ever wait for each other.
//!
//! The token is the largest that any part was given. It is above all that were given for any of the
//! keys before, and every key is *raised*, by a round that extends it and takes numbers up to the token,
//! unless a round for it has taken them already: so all later tokens of each key are above it. The same
//! round brings back most of the lease where other keys were waited for meanwhile.
//!
//! The lease ends with the first of the parts. What ends one, ends all.

mod part;

use std::{ops::RangeBounds, sync::Arc, time::Duration};

use self::part::Stage;
pub(crate) use self::part::{Part, Step, Word};

use crate::{
    action::{Answer, Cause, Loss, Refusal, Release, Verdict},
    message::{Mode, SectionId},
    rules::{
        token::Token,
        validity::{LockParams, default_renewal},
    },
    time::Instant,
};

/// For one attempt, which takes its place in the queue of the key and hears whether others wait.
const ONE_ATTEMPT: Duration = Duration::from_nanos(1);

/// The raises of tokens before a key is let go again. One is enough unless rounds do not agree.
const MOST_RAISES: u32 = 8;

#[derive(Clone, Debug)]
pub(crate) struct Compound {
    params: LockParams,
    pub(crate) asked: Instant,
    parts: Vec<Part>,
    state: State,
    /// One key was not to be had at once.
    is_in_order: bool,
    raises: u32,
    /// Of all parts so far.
    attempts: u32,
    /// The holder has asked for a fresh lease.
    is_extending: bool,
    /// When the lease ends, as far as the holder has been told.
    told: Instant,
    release: Release,
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Keys are asked for, or all are held and tokens of some are to rise.
    Acquiring,
    Held,
    /// Its lease has ended under the holder.
    Over,
    /// The caller waits to hear what became of its release.
    Ending,
    Ended,
}

impl Compound {
    /// Each key once, in order from the beginning or all at the same time.
    pub(crate) fn new(
        mut keys: Vec<Arc<str>>,
        params: LockParams,
        is_in_order: bool,
        now: Instant,
    ) -> Self {
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
            state: State::Acquiring,
            is_in_order,
            raises: 0,
            attempts: 0,
            is_extending: false,
            told: now,
            release: Release::Released,
            steps: Vec::new(),
        };
        let wait = match is_in_order {
            true => params.wait,
            false => params.wait.min(ONE_ATTEMPT),
        };
        compound.ask_for_missing(wait);
        compound
    }

    pub(crate) fn take_steps(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.steps)
    }

    pub(crate) fn part(&mut self, part: usize) -> &mut Part {
        &mut self.parts[part]
    }

    /// The part whose section this is.
    pub(crate) fn part_of(&self, section: SectionId) -> Option<usize> {
        let mut parts = self.parts.iter();
        parts.position(|part| part.section == Some(section))
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Its caller has not let go.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.state, State::Ending | State::Ended)
    }

    // ---- the caller

    pub(crate) fn on_extend(&mut self) {
        if self.state != State::Held {
            return;
        }
        self.is_extending = true;
        self.extend(|_, _| true, Token::default());
    }

    pub(crate) fn on_end(&mut self, report: bool, now: Instant) {
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
    pub(crate) fn stop(&mut self) {
        if self.state == State::Acquiring {
            let refusal = Refusal::without_verdicts(Cause::Stopped);
            self.refuse(self.first_missing().unwrap_or(0), refusal);
        }
    }

    // ---- parts

    pub(crate) fn on_answer(
        &mut self,
        part: usize,
        answer: Answer,
        reach: Option<Token>,
        now: Instant,
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
                self.go_on(now);
            }
            Answer::Refused(refusal) => {
                self.attempts += refusal.attempts;
                self.parts[part].stage = Stage::Idle;
                self.on_missing(part, refusal, now);
            }
            Answer::Extended { deadline } => self.on_extended((part, now), deadline, reach),
            Answer::NotExtended { verdicts } => match self.state {
                State::Acquiring => self.on_missing(part, no_quorum(verdicts), now),
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
            State::Acquiring => self.go_on(now),
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

    /// Asks for the first key that is missing, unless its answer is to come.
    fn go_on(&mut self, now: Instant) {
        match self.first_missing() {
            None => self.begin_if_raised(now),
            Some(first) if matches!(self.parts[first].stage, Stage::Idle) => {
                self.ask_for_missing(self.wait_until().since(now));
            }
            Some(_) => {}
        }
    }

    /// All keys are held.
    fn begin_if_raised(&mut self, now: Instant) {
        if self.is_asking() {
            return;
        }
        let token = self.parts.iter().filter_map(Part::token).max();
        let Some((token, deadline)) = token.zip(self.deadline()) else {
            return;
        };
        self.raises += 1;
        let (min_validity, is_last) = (self.params.min_validity, self.raises > MOST_RAISES);
        let fails = |deadline: Instant, reach| {
            deadline.since(now) < min_validity || is_last && reach < token
        };
        if let Some(part) = self.parts.iter().position(|part| part.is(fails)) {
            return self.on_missing(part, no_quorum(Vec::new()), now);
        }
        // Once, if other keys were waited for: most of the lease is for the section.
        let least = match self.is_in_order && self.raises == 1 {
            true => self.params.lease - self.params.lease / 4,
            false => Duration::ZERO,
        };
        self.extend(
            |deadline, reach| reach < token || deadline.since(now) < least,
            token,
        );
        if self.is_asking() {
            return;
        }
        let max_hold = self.params.max_hold;
        self.tell_all(Word::Begin { token, max_hold });
        if self.params.renew.is_none() {
            self.tell_all(Word::StopRenewing);
        }
        self.state = State::Held;
        self.told = deadline;
        self.answer(Answer::Granted {
            deadline,
            token,
            attempts: self.attempts,
        });
    }

    /// One was refused, or is held no longer, or is of no use. From here on it is waited for.
    fn on_missing(&mut self, part: usize, refusal: Refusal, now: Instant) {
        if now >= self.wait_until() || refusal.cause == Cause::Stopped {
            return self.refuse(part, refusal);
        }
        (self.is_in_order, self.raises) = (true, 0);
        self.end(part.., false);
        self.go_on(now);
    }

    fn on_over(&mut self, part: usize, loss: Loss, now: Instant) {
        match self.state {
            State::Acquiring => {
                let refusal = match loss {
                    Loss::Stopped => Refusal::without_verdicts(Cause::Stopped),
                    Loss::Lost { verdicts } | Loss::Expired { verdicts } => no_quorum(verdicts),
                };
                self.on_missing(part, refusal, now);
            }
            State::Held => {
                self.state = State::Over;
                self.is_extending = false;
                // A holder that does not let go must not keep the others for longer than their leases.
                self.tell_all(Word::StopRenewing);
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

    fn first_missing(&self) -> Option<usize> {
        self.parts.iter().position(|part| !part.is_held())
    }

    /// One after the other as long as there is time to wait for them, and else all at once.
    fn ask_for_missing(&mut self, wait: Duration) {
        for (part, one) in self.parts.iter_mut().enumerate() {
            if !matches!(one.stage, Stage::Idle) {
                continue;
            }
            one.stage = Stage::Asked;
            let renew = self.params.renew;
            let params = LockParams {
                wait,
                // What is let go because another key is taken must not be kept.
                at_least: Duration::ZERO,
                // It counts from when all are held.
                max_hold: None,
                // Other keys may have to be waited for.
                renew: renew.or_else(|| Some(default_renewal(self.params.lease))),
                // Tokens of several keys rise for one section at a time.
                mode: Mode::Exclusive,
                is_fair: false,
                ..self.params
            };
            self.steps.push(Step::Ask { part, params });
            if wait > ONE_ATTEMPT {
                return;
            }
        }
    }

    fn tell_all(&mut self, what: Word) {
        let parts = 0..self.parts.len();
        self.steps
            .extend(parts.map(|part| Step::Tell { part, what }));
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
