//! Sections with several keys: what they want done, and what their parts are told.

use std::sync::Arc;

use super::Protocol;
use crate::{
    action::Answer,
    compound::{Compound, Step, Word},
    message::{Member, SectionId},
    rules::{key_names::line_key, validity::LockParams},
    timer::Timer,
};

impl Protocol {
    pub(super) fn on_ask_all(
        &mut self,
        section: SectionId,
        members: Vec<Member>,
        params: LockParams,
    ) {
        // Who asks for all at once does so out of turn.
        let is_contested = |lock: &Member| {
            let queue = match lock.permits {
                0 => Arc::clone(&lock.key),
                _ => line_key(&lock.key),
            };
            let gate = lock.is_gate().then(|| lock.asked_key());
            let keys = gate.into_iter().chain([queue]);
            keys.filter_map(|key| self.keys.named(&key))
                .any(|key| key.is_contested() || !key.is_free())
        };
        let is_in_order = !params.wait.is_zero() && members.iter().any(is_contested);
        let compound = Compound::new(members, params, is_in_order, self.out.now);
        self.compounds.insert(section, compound);
        self.with_compound(section, |_| {});
    }

    /// The sections that have its locks: its parts, or itself.
    pub(super) fn holders_of(&self, id: SectionId) -> Vec<SectionId> {
        match self.compounds.get(&id) {
            Some(compound) => compound
                .parts
                .iter()
                .filter_map(|part| part.section)
                .collect(),
            None => vec![id],
        }
    }

    /// Lets it act, does what it wants done, and forgets it once it has ended.
    pub(super) fn with_compound(&mut self, id: SectionId, act: impl FnOnce(&mut Compound)) {
        let Some(compound) = self.compounds.get_mut(&id) else {
            return;
        };
        act(compound);
        // The steps are carried out one by one, because each may change the compound again.
        for step in compound.take_steps() {
            self.carry_out(id, step);
            // A permit's waiter on its way from key to key is at neither, and the next step may end it.
            while let Some((from, what)) = self.moves.pop_front() {
                self.on_move(&from, what);
            }
        }
        let Some(compound) = self.compounds.get(&id) else {
            return;
        };
        if let Some(at) = compound.wakes_at() {
            self.timers.wake(Timer::Compound(id), at);
        }
        if compound.is_ended() {
            self.compounds.remove(&id);
        }
    }

    /// What a part is told. Of one that has been ended meanwhile nothing is of interest.
    pub(super) fn on_part(&mut self, part: SectionId, answer: Answer) {
        let Some(&id) = self.parts.get(&part) else {
            return;
        };
        let is_last = matches!(answer, Answer::Refused(_) | Answer::Released(_));
        // Nothing follows a refusal or a release, so the section's number is forgotten.
        if is_last {
            self.parts.remove(&part);
        }
        let reach = self.out.sections.get(&part);
        let reach = reach.and_then(|key| self.keys.get_mut(*key)?.token_reach(part));
        let now = self.out.now;
        self.with_compound(id, |compound| {
            let mut parts = compound.parts.iter();
            if let Some(place) = parts.position(|one| one.section == Some(part)) {
                compound.on_answer(place, answer, reach, now);
            }
        });
    }

    fn carry_out(&mut self, id: SectionId, step: Step) {
        let (part, what) = match step {
            Step::Answer(answer) => return self.out.answer(id, answer),
            Step::Tell(part, what) => (part, what),
        };
        let Some(compound) = self.compounds.get_mut(&id) else {
            return;
        };
        // Since its first call: at the end of the queue each time, it might never get all keys.
        let (since, part) = (compound.asked, &mut compound.parts[part]);
        if let Word::Ask(params) = what {
            // A new one each time, so that an answer to the question before is not taken for one to this.
            self.last_part.0 += 1;
            let (section, key) = (self.last_part, part.lock.asked_key());
            part.section = Some(section);
            self.parts.insert(section, id);
            return self.on_ask(section, key, params, since);
        }
        let Some(section) = part.section else {
            return;
        };
        if let Word::End { report } = what {
            // Nobody waits for the release, so its answer has no place to go.
            if !report {
                self.parts.remove(&section);
            }
            return self.on_end(section, report);
        }
        let now = self.out.now;
        self.with_key_of(section, |key| match what {
            Word::Extend { lease, reach } => key.on_extend(section, lease, reach, now),
            Word::Begin { token, max_hold } => key.begin_part(section, (token, max_hold), now),
            _ => key.stop_renewing(section),
        });
    }
}
