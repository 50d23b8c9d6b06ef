//! Locks with permits: what pools want done, and what their sections are told.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::Protocol;
use crate::{
    action::{Answer, Cause, Refusal},
    ask::PoolId,
    key::Key,
    message::{Mode, SectionId},
    pool::{Around, Pool, Step, Terms},
    rules::validity::LockParams,
    timer::Timer,
};

/// All pools, and who waits in them.
#[derive(Debug, Default)]
pub(super) struct Pools {
    pools: BTreeMap<PoolId, Pool>,
    ids: BTreeMap<Terms, PoolId>,
    next: u64,
    /// The pool in which a caller waits, or on whose behalf a section asks for a slot.
    sections: BTreeMap<SectionId, PoolId>,
}

impl Pools {
    /// The callers that wait for a permit of this lock.
    pub(super) fn callers_of(&self, lock: &str) -> impl Iterator<Item = SectionId> {
        let of_pool = |id| {
            self.pools
                .get(id)
                .is_some_and(|pool| *pool.terms.key == *lock)
        };
        let waiting = self.sections.iter().filter(move |(_, id)| of_pool(id));
        let waiting = waiting.map(|(&section, _)| section);
        waiting.filter(|section| !section.is_part())
    }
}

impl Protocol {
    pub(super) fn on_ask_permit(
        &mut self,
        section: SectionId,
        (key, permits): (Arc<str>, u32),
        params: LockParams,
    ) {
        if self.stops_at.is_some() {
            let answer = Answer::Refused(Refusal::without_verdicts(Cause::Stopped));
            return self.out.answer(section, answer);
        }
        let terms = Terms {
            key,
            permits,
            params: LockParams {
                wait: Duration::ZERO,
                // Each permit is one section's.
                mode: Mode::Exclusive,
                ..params
            },
        };
        let Pools {
            pools, ids, next, ..
        } = &mut self.pools;
        let env = &mut self.out.env;
        let id = *ids.entry(terms).or_insert_with_key(|terms| {
            let id = PoolId(*next);
            *next += 1;
            pools.insert(id, Pool::new(terms.clone(), (env.random)()));
            id
        });
        self.pools.sections.insert(section, id);
        let now = self.out.now;
        self.with_pool(id, |pool| pool.join(section, params.wait, now));
    }

    /// A caller stops waiting, if it has.
    pub(super) fn leave_pool(&mut self, section: SectionId) {
        if let Some(id) = self.pools.sections.remove(&section) {
            self.with_pool(id, |pool| pool.leave(section));
        }
    }

    /// What a section is told that asks for a slot. Of one that has been ended meanwhile nothing is of
    /// interest.
    pub(super) fn on_asked(&mut self, section: SectionId, answer: Answer) {
        let Some(id) = self.pools.sections.remove(&section) else {
            return;
        };
        self.with_pool(id, |pool| match answer {
            Answer::Refused(refusal) => pool.on_refused(section, refusal),
            granted => pool.on_granted(section, granted),
        });
    }

    /// Lets it act and go on, does what it wants done, and forgets it once no caller waits.
    pub(super) fn with_pool(&mut self, id: PoolId, act: impl FnOnce(&mut Pool)) {
        let now = self.out.now;
        let Some(pool) = self.pools.pools.get_mut(&id) else {
            return;
        };
        act(pool);
        let (sections, keys) = (&self.out.sections, &self.keys);
        let refusal_of = |section| {
            let key = keys.get(*sections.get(&section)?)?;
            Some(key.refusal_in_queue(now))
        };
        let is_held = |name: &str| keys.named(name).is_some_and(Key::is_held);
        pool.advance(Around {
            now,
            last_section: &mut self.last_part,
            refusal_of: &refusal_of,
            is_held: &is_held,
        });
        let steps = pool.take_steps();
        if let Some(at) = pool.next_due(now) {
            self.timers.wake_by(Timer::Pool(id), at);
        }
        if pool.is_idle() {
            self.timers.cancel(Timer::Pool(id));
            self.pools.ids.remove(&pool.terms);
            self.pools.pools.remove(&id);
        }
        for step in steps {
            self.carry_out_for(id, step);
        }
    }

    fn carry_out_for(&mut self, id: PoolId, step: Step) {
        match step {
            Step::Ask {
                section,
                key,
                params,
                gives_way,
            } => {
                self.pools.sections.insert(section, id);
                let known = self.keys.named(&key);
                if gives_way && known.is_some_and(Key::is_contested) {
                    let answer = Answer::Refused(Refusal::CONTENDED);
                    return self.out.answer(section, answer);
                }
                self.on_ask(section, key, params, self.out.now);
            }
            Step::End(section) => {
                self.pools.sections.remove(&section);
                self.on_end(section, false);
            }
            Step::Give {
                section,
                caller,
                granted,
            } => self.give(section, caller, granted),
            Step::Refuse { caller, refusal } => {
                self.pools.sections.remove(&caller);
                self.out.answer(caller, Answer::Refused(refusal));
            }
        }
    }

    /// From here on the caller has an ordinary section.
    fn give(&mut self, section: SectionId, caller: SectionId, granted: Answer) {
        self.pools.sections.remove(&caller);
        let key = self.out.sections.remove(&section);
        let Some((id, key)) = key.and_then(|id| Some((id, self.keys.get_mut(id)?))) else {
            return;
        };
        // Nothing has happened to the key since.
        let is_given = key.give(section, caller);
        debug_assert!(is_given, "who was granted a slot has it");
        self.out.sections.insert(caller, id);
        self.out.answer(caller, granted);
    }
}
