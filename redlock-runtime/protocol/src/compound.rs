//! A section with several keys: all or none.
//!
//! It has one ordinary section, a *part*, for each key, which has it alone, shares it, or has a permit of it. It asks
//! for all of them at the same time, without waiting, unless others are known to wait for one. If all are granted, that was one round. If one is
//! refused, or lost again, those behind it in the order of names are let go, and from there the section goes on
//! *in order*: it waits for the first key that is missing, as any waiter does and with what is left of its time,
//! then for the next one, and keeps what it has by renewals. All sections wait in the same order, so no two
//! ever wait for each other.
//!
//! The token is the largest that any part was given. It is above all that were given for any of the
//! keys before, and every key is *raised*, by a round that extends it and takes numbers up to the token,
//! unless a round for it has taken them already: so all later tokens of each key are above it. That
//! round brings back most of the lease where other keys were waited for meanwhile.
//!
//! Of several permits of one lock each is a part. Before them comes the lock's *gate*, which the section has alone
//! until it has all of its keys. Without it two sections could have half of the permits each, and wait for the rest.
//! Who wants one permit needs no gate.
//!
//! Others that have a key at the same time, because it is shared or has permits, may have the same number: their
//! tokens have no order, and each is between those of earlier and of later holders.
//!
//! The lease ends with the first of the parts. What ends one, ends all.

use std::{sync::Arc, time::Duration};

use crate::{
    action::{Answer, Cause, Loss, Refusal, Release},
    message::{Member, SectionId},
    rules::{
        key_names::gate_key,
        token::Token,
        validity::{LeaseParams, LockParams, default_renewal},
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
    pub(crate) parts: Vec<Part>,
    state: State,
    raises: u32,
    /// Of all parts so far.
    attempts: u32,
    /// The holder has asked for a fresh lease of this length.
    extending: Option<Duration>,
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

/// One of the keys.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) lock: Member,
    /// Its section; another one each time that the key is asked for.
    pub(crate) section: Option<SectionId>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Idle,
    Asked,
    Held(Held),
}

#[derive(Clone, Copy, Debug)]
struct Held {
    deadline: Instant,
    token: Token,
    /// The nodes give no token up to this one any more.
    reach: Token,
    /// An answer to a raise, or to an extension, is to come.
    is_asked: bool,
}

/// What the caller must do.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Its caller is told.
    Answer(Answer),
    /// The section of this part is told.
    Tell(usize, Word),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    /// For the key; by a new section.
    Ask(LockParams),
    End {
        report: bool,
    },
    /// For a fresh lease, and so that the nodes give no token up to this one any more.
    Extend {
        lease: Option<LeaseParams>,
        reach: Token,
    },
    /// All keys are held: the token of the section, and for how long it may have them from now on.
    Begin {
        token: Token,
        max_hold: Option<Duration>,
    },
    StopRenewing,
}

impl Member {
    /// Each key that the section has of this lock, in the order in which it gets them.
    fn parts(self) -> impl Iterator<Item = Self> {
        let permit = Self {
            weight: 1,
            ..self.clone()
        };
        let permits = std::iter::repeat_n(permit, self.weight.max(1) as usize);
        let gate = self.is_gate().then_some(self);
        gate.into_iter().chain(permits)
    }

    /// As a part it is the gate, and its permits are parts of their own.
    pub(crate) const fn is_gate(&self) -> bool {
        self.weight > 1
    }

    /// What is asked for; the callers of a lock with permits then wait in its line.
    pub(crate) fn asked_key(&self) -> Arc<str> {
        match self.is_gate() {
            true => gate_key(&self.key),
            false => Arc::clone(&self.key),
        }
    }
}

impl Part {
    const fn held(&self) -> Option<Held> {
        match self.stage {
            Stage::Held(held) => Some(held),
            Stage::Idle | Stage::Asked => None,
        }
    }
}

impl Compound {
    /// Each key once, in order from the beginning or all at the same time.
    pub(crate) fn new(
        mut locks: Vec<Member>,
        params: LockParams,
        is_in_order: bool,
        now: Instant,
    ) -> Self {
        // One order for all processes: whoever waits has only keys before the one it waits for, so there is no
        // circle.
        locks.sort_unstable();
        // A key and its permits are two locks. Of one lock the exclusive kind is the first.
        locks.dedup_by_key(|lock| (Arc::clone(&lock.key), lock.permits > 0));
        let part = |lock| Part {
            lock,
            section: None,
            stage: Stage::Idle,
        };
        let mut compound = Self {
            params,
            asked: now,
            parts: locks
                .into_iter()
                .flat_map(Member::parts)
                .map(part)
                .collect(),
            state: State::Acquiring,
            raises: 0,
            attempts: 0,
            extending: None,
            told: now,
            release: Release::Released,
            steps: Vec::new(),
        };
        compound.ask_for_missing(match is_in_order {
            // Others are known to wait for a key: asking for all at once would fail, and disturb them.
            true => params.wait,
            false => params.wait.min(ONE_ATTEMPT),
        });
        compound
    }

    pub(crate) fn take_steps(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.steps)
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Its caller has not let go.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.state, State::Ending | State::Ended)
    }

    // ---- the caller

    /// What is under way serves this caller too unless it wants more. With rounds for each caller, one key or another
    /// would always be asked for, and nobody would hear.
    pub(crate) fn on_extend(&mut self, lease: Option<LeaseParams>) {
        let length = lease.map_or(self.params.lease, |lease| lease.length);
        if self.state == State::Held && self.extending < Some(length) {
            self.extending = Some(length);
            // Every key: the lease ends with the first of them.
            self.extend(lease, Token::default(), |_| true);
        }
    }

    pub(crate) fn on_end(&mut self, report: bool, now: Instant) {
        let known = match self.state {
            State::Held if now < self.told => None,
            // What its parts have may last for longer: the caller was not told.
            State::Held | State::Over => Some(Release::AlreadyExpired),
            _ => Some(Release::Unknown),
        };
        // All keys must be confirmed before the caller hears that they were released.
        let is_to_come = report && known.is_none();
        self.end(0, is_to_come);
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
        let stage = &mut self.parts[part].stage;
        match (self.state, answer) {
            (
                _,
                Answer::Granted {
                    deadline,
                    token,
                    attempts,
                },
            ) => {
                // Of all keys: the caller sees what the lock has cost.
                self.attempts += attempts;
                *stage = Stage::Held(Held {
                    deadline,
                    token,
                    reach: reach.unwrap_or(token),
                    is_asked: false,
                });
                self.go_on(now);
            }
            (_, Answer::Refused(refusal)) => {
                self.attempts += refusal.attempts;
                *stage = Stage::Idle;
                self.on_missing(part, refusal, now);
            }
            (_, Answer::Extended { deadline }) => {
                if let Stage::Held(held) = stage {
                    (held.deadline, held.is_asked) = (deadline, false);
                    // Replies may come out of order, and counters never fall.
                    held.reach = held.reach.max(reach.unwrap_or_default());
                }
                self.on_extended(now);
            }
            (
                State::Acquiring,
                Answer::NotExtended { verdicts }
                | Answer::Over(Loss::Lost { verdicts } | Loss::Expired { verdicts }),
            ) => self.on_missing(part, Refusal::new(Cause::NoQuorum, verdicts), now),
            (State::Held, Answer::NotExtended { verdicts }) if self.told <= now => {
                self.on_over(Loss::Expired { verdicts });
            }
            (State::Held, Answer::NotExtended { verdicts }) if self.extending.is_some() => {
                self.extending = None;
                self.answer(Answer::NotExtended { verdicts });
            }
            (State::Held, Answer::Over(loss)) => self.on_over(loss),
            (_, Answer::Released(release)) => {
                *stage = Stage::Idle;
                self.on_released(release);
            }
            (_, Answer::NotExtended { .. } | Answer::Over(_)) => {}
        }
    }

    /// The lease ends when the holder was told that it does, also where the parts last for longer: renewals keep them
    /// while their holder asks for more, one may not be extended although the others are, and a last one may be
    /// answered after the section has begun.
    pub(crate) fn wakes_at(&self) -> Option<Instant> {
        let are_longer = self.told < self.deadline();
        let wakes = self.state == State::Held && (self.extending.is_some() || are_longer);
        wakes.then_some(self.told)
    }

    pub(crate) fn on_time(&mut self, now: Instant) {
        if self.state == State::Held && self.told <= now {
            let verdicts = Vec::new();
            self.on_over(Loss::Expired { verdicts });
        }
    }

    fn on_extended(&mut self, now: Instant) {
        match self.state {
            State::Acquiring => self.go_on(now),
            // Its parts may have been extended one after the other, and the last of them too late.
            State::Held if self.told <= now => self.on_time(now),
            // What was kept by renewals until now may hear of the last of them later.
            State::Held if self.params.renew.is_none() && self.extending.is_none() => {}
            State::Held if self.extending.is_none() || !self.is_asking() => {
                self.extending = None;
                self.told = self.deadline();
                let deadline = self.told;
                self.answer(Answer::Extended { deadline });
            }
            _ => {}
        }
    }

    /// Asks for the first key that is missing, unless its answer is to come.
    fn go_on(&mut self, now: Instant) {
        match self.first_missing() {
            None if self.is_asking() => {}
            None => self.begin_if_raised(now),
            Some(first) if matches!(self.parts[first].stage, Stage::Idle) => {
                self.ask_for_missing(self.wait_until().since(now));
            }
            Some(_) => {}
        }
    }

    /// All keys are held.
    fn begin_if_raised(&mut self, now: Instant) {
        let token = self.held().map(|held| held.token).max();
        let token = token.unwrap_or_default();
        // Bounded: rounds may disagree again and again, while the keys are held idle.
        self.raises += 1;
        let (min_validity, is_last) = (self.params.min_validity, self.raises > MOST_RAISES);
        let fails =
            |held: Held| held.deadline.since(now) < min_validity || is_last && held.reach < token;
        let failed = self.held().position(fails);
        // It begins anew from this key with a fresh lease: what is left would be too short for the section.
        if let Some(part) = failed {
            return self.on_missing(part, Refusal::without_verdicts(Cause::NoQuorum), now);
        }
        // Most of the lease is for the section, also if other keys were waited for meanwhile.
        let newest = self.held().map(|held| held.deadline).max();
        let least = newest.filter(|_| self.raises == 1);
        let least = least.map(|newest| newest.before(self.params.lease / 4));
        self.extend(None, token, |held| {
            held.reach < token || Some(held.deadline) < least
        });
        if self.is_asking() {
            return;
        }
        // Not sooner: who loses a permit until here goes on collecting.
        for place in 0..self.parts.len() {
            if self.parts[place].lock.is_gate() {
                self.end_part(place, false);
            }
        }
        let max_hold = self.params.max_hold;
        // Only now `max_hold` counts: the time in which keys were waited for is not the section's.
        self.tell_all(Word::Begin { token, max_hold });
        // They were renewed only while other keys were waited for.
        if self.params.renew.is_none() {
            self.tell_all(Word::StopRenewing);
        }
        // Without the gate, which is let go.
        let deadline = self.deadline();
        (self.state, self.told) = (State::Held, deadline);
        let attempts = self.attempts;
        self.answer(Answer::Granted {
            deadline,
            token,
            attempts,
        });
    }

    /// One was refused, or is held no longer, or is of no use. From here on it is waited for.
    fn on_missing(&mut self, part: usize, refusal: Refusal, now: Instant) {
        // The refusal of this key is what the caller hears, with its name.
        if now >= self.wait_until() || refusal.cause == Cause::Stopped {
            return self.refuse(part, refusal);
        }
        // Another attempt, with keys and tokens of its own.
        self.raises = 0;
        // And those behind it: only keys before a missing one are kept.
        self.end(part, false);
        self.go_on(now);
    }

    fn on_over(&mut self, loss: Loss) {
        (self.state, self.extending) = (State::Over, None);
        // A holder that does not let go must not keep the others for longer than their leases.
        self.tell_all(Word::StopRenewing);
        self.answer(Answer::Over(loss));
    }

    fn on_released(&mut self, release: Release) {
        // The worst of all keys: one that had expired may have let another client in.
        if self.release == Release::Released || release == Release::AlreadyExpired {
            self.release = release;
        }
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
        self.parts.iter().position(|part| part.held().is_none())
    }

    fn held(&self) -> impl Iterator<Item = Held> {
        self.parts.iter().filter_map(Part::held)
    }

    /// When the first lease ends.
    fn deadline(&self) -> Instant {
        let deadlines = self.held().map(|held| held.deadline);
        deadlines.min().unwrap_or(self.told)
    }

    /// Some part has not answered what it was asked while it is held.
    fn is_asking(&self) -> bool {
        self.held().any(|held| held.is_asked)
    }

    /// One after the other as long as there is time to wait for them, and else all at once.
    fn ask_for_missing(&mut self, wait: Duration) {
        let renew = self.params.renew;
        let params = LockParams {
            wait,
            // What is let go because another key is taken must not be kept.
            at_least: Duration::ZERO,
            // It counts from when all are held.
            max_hold: None,
            // Other keys may have to be waited for.
            renew: renew.or_else(|| Some(default_renewal(self.params.lease))),
            is_fair: false,
            ..self.params
        };
        // Waiting for several keys at once could make two sections wait for each other.
        let most = if wait > ONE_ATTEMPT {
            1
        } else {
            self.parts.len()
        };
        let parts = self.parts.iter_mut().enumerate();
        let missing = parts.filter(|(_, part)| matches!(part.stage, Stage::Idle));
        for (place, part) in missing.take(most) {
            part.stage = Stage::Asked;
            let params = params.of_member(&part.lock);
            self.steps.push(Step::Tell(place, Word::Ask(params)));
        }
    }

    /// Extends the parts that need it, up to where the nodes give no token.
    fn extend(
        &mut self,
        lease: Option<LeaseParams>,
        reach: Token,
        needs_it: impl Fn(&Held) -> bool,
    ) {
        for (place, part) in self.parts.iter_mut().enumerate() {
            if let Stage::Held(held) = &mut part.stage
                && needs_it(held)
            {
                held.is_asked = true;
                let word = Word::Extend { lease, reach };
                self.steps.push(Step::Tell(place, word));
            }
        }
    }

    /// Ends the parts from this one on. With `report` they are idle once they have reported.
    fn end(&mut self, from: usize, report: bool) {
        for place in from..self.parts.len() {
            self.end_part(place, report);
        }
    }

    fn end_part(&mut self, place: usize, report: bool) {
        let stage = &mut self.parts[place].stage;
        if !matches!(stage, Stage::Idle) {
            if !report {
                *stage = Stage::Idle;
            }
            self.steps.push(Step::Tell(place, Word::End { report }));
        }
    }

    fn tell_all(&mut self, what: Word) {
        let parts = 0..self.parts.len();
        self.steps.extend(parts.map(|part| Step::Tell(part, what)));
    }

    fn refuse(&mut self, part: usize, refusal: Refusal) {
        self.end(0, false);
        self.state = State::Ended;
        self.answer(Answer::Refused(Refusal {
            key: Some(Arc::clone(&self.parts[part].lock.key)),
            attempts: self.attempts,
            ..refusal
        }));
    }

    fn answer(&mut self, answer: Answer) {
        self.steps.push(Step::Answer(answer));
    }
}

#[cfg(test)]
mod tests;
