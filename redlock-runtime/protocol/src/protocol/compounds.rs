//! Sections with several keys: what they want done, and what their parts are told.

use std::sync::Arc;

use super::Protocol;
use crate::{
    action::Answer,
    compound::{Compound, Step, Word},
    message::SectionId,
    rules::validity::LockParams,
};

impl Protocol {
    pub(super) fn on_ask_all(
        &mut self,
        section: SectionId,
        keys: Vec<Arc<str>>,
        params: LockParams,
    ) {
        // Who asks for all at once does so out of turn.
        let is_contested = |key: &Arc<str>| {
            let key = self.keys.named(key);
            key.is_some_and(|key| key.is_contested() || !key.is_free())
        };
        let is_in_order = !params.wait.is_zero() && keys.iter().any(is_contested);
        let compound = Compound::new(keys, params, is_in_order, self.out.now);
        self.compounds.insert(section, compound);
        self.with_compound(section, |_| {});
    }

    /// Lets it act, does what it wants done, and forgets it once it has ended.
    pub(super) fn with_compound(&mut self, id: SectionId, act: impl FnOnce(&mut Compound)) {
        let Some(compound) = self.compounds.get_mut(&id) else {
            return;
        };
        act(compound);
        for step in compound.take_steps() {
            self.carry_out(id, step);
        }
        if self.compounds.get(&id).is_some_and(Compound::is_ended) {
            self.compounds.remove(&id);
        }
    }

    /// What a part is told. Of one that has been ended meanwhile nothing is of interest.
    pub(super) fn on_part(&mut self, part: SectionId, answer: Answer) {
        let Some(&id) = self.parts.get(&part) else {
            return self.on_asked(part, answer);
        };
        let is_last = matches!(answer, Answer::Refused(_) | Answer::Released(_));
        if is_last {
            self.parts.remove(&part);
        }
        let reach = self.out.sections.get(&part);
        let reach = reach.and_then(|key| self.keys.get_mut(*key)?.token_reach(part));
        let now = self.out.now;
        self.with_compound(id, |compound| {
            if let Some(place) = compound.part_of(part) {
                compound.on_answer(place, answer, reach, now);
            }
        });
    }

    fn carry_out(&mut self, id: SectionId, step: Step) {
        let Some(compound) = self.compounds.get_mut(&id) else {
            return;
        };
        match step {
            Step::Answer(answer) => self.out.answer(id, answer),
            Step::Ask { part, params } => {
                self.last_part.0 += 1;
                let section = self.last_part;
                let since = compound.asked;
                let part = compound.part(part);
                part.section = Some(section);
                let key = Arc::clone(&part.key);
                self.parts.insert(section, id);
                self.on_ask(section, key, params, since);
            }
            Step::Tell { part, what } => {
                if let Some(section) = compound.part(part).section {
                    self.tell_part(section, what);
                }
            }
        }
    }

    fn tell_part(&mut self, section: SectionId, what: Word) {
        match what {
            Word::End { report } => {
                if !report {
                    self.parts.remove(&section);
                }
                self.on_end(section, report);
            }
            Word::Extend { reach } => {
                self.with_key_of(section, |key| key.on_extend(section, reach));
            }
            Word::Begin { token, max_hold } => {
                let now = self.out.now;
                self.with_key_of(section, |key| {
                    key.settle_token(section, token);
                    key.limit_hold(section, max_hold, now);
                });
            }
            Word::StopRenewing => self.with_key_of(section, |key| key.stop_renewing(section)),
        }
    }
}
