//! Locks with permits: what the keys of one lock hand to each other.

use std::sync::Arc;

use super::Protocol;
use crate::{
    action::{Answer, Cause, Refusal},
    key::{Key, Move, Waiter, Waiting},
    message::SectionId,
    purpose::KeyId,
    rules::{
        key_names::{line_key, line_of},
        validity::LockParams,
    },
    time::Instant,
};

impl Protocol {
    pub(super) fn on_ask_permit(
        &mut self,
        section: SectionId,
        lock: &str,
        params: LockParams,
        since: Instant,
    ) {
        let line = line_key(lock);
        // Not made here: a call that is refused at once must leave nothing behind.
        let key = self.keys.named(&line);
        let is_new = self.stops_at.is_none() && params.wait.is_zero();
        if is_new && key.is_some_and(|key| key.has_all(params.permits)) {
            let refusal = self.refusal_here(&line, params.permits);
            return self.out.answer(section, Answer::Refused(refusal));
        }
        self.on_ask_at(section, line, params, since);
    }

    /// This process has all slots. The first to end may be free then.
    fn refusal_here(&self, line: &str, permits: u32) -> Refusal {
        let now = self.out.now;
        let slots = (0..permits).filter_map(|slot| self.keys.named(&format!("{line}{slot}")));
        let refusals = slots.map(|slot| slot.refusal_in_queue(now));
        let first = refusals.min_by_key(|refusal| match refusal.cause {
            Cause::Contended { retry_after } => (retry_after.is_none(), retry_after),
            _ => (true, None),
        });
        first.unwrap_or(Refusal::CONTENDED)
    }

    /// The section ends in a slot: one who waits in line for it may follow in its turn.
    pub(super) fn lend(&mut self, section: SectionId, slot: KeyId) -> Option<Waiting> {
        let now = self.out.now;
        let line = self.keys.find(line_of(self.keys.name_of(slot)?)?)?;
        let is_kept = self.keys.get_mut(line)?.keeps_slots();
        let passes_on = self.keys.get_mut(slot)?.passes_on(section, is_kept, now);
        let mut lent = None;
        if passes_on {
            self.with_key(line, |key, cx| lent = key.lend(cx));
        }
        let sections = lent.iter().map(|lent| (lent.section, slot));
        self.out.sections.extend(sections);
        lent
    }

    /// Callers of one process that ask for the same are served in the order in which they called, whichever slot is
    /// theirs first.
    fn exchange(&mut self, line: KeyId, own: KeyId, waiter: &mut Waiter) {
        let Some(name) = self.keys.name_of(line).cloned() else {
            return;
        };
        let busy = self.keys.get(line).into_iter().flat_map(Key::busy);
        let slots = busy.filter_map(|slot| self.keys.find(&format!("{name}{slot}")));
        let others = slots.chain([line]).filter(|key| *key != own);
        for key in others.collect::<Vec<_>>() {
            let after = waiter.section;
            let mut is_exchanged = false;
            self.with_key(key, |other, _| is_exchanged = other.exchange(waiter));
            if is_exchanged {
                self.out.sections.insert(after, key);
            }
        }
    }

    pub(super) fn on_move(&mut self, from: &Arc<str>, what: Move) {
        let to = match &what {
            Move::Take { slot, .. } => Some(self.keys.id_of(format!("{from}{slot}").into())),
            _ => line_of(from).and_then(|line| self.keys.find(line)),
        };
        let Some(to) = to else {
            return;
        };
        let sections = &mut self.out.sections;
        match what {
            Move::Take { slot, waiter } => {
                sections.insert(waiter.section, to);
                self.with_key(to, |key, cx| key.on_take(slot, *waiter, cx));
            }
            Move::Won(mut waiter) => {
                let Some(slot) = self.keys.find(from) else {
                    return;
                };
                self.exchange(to, slot, &mut waiter);
                self.out.sections.insert(waiter.section, slot);
                self.with_key(slot, |key, cx| key.on_given(*waiter, cx));
            }
            Move::Lost {
                slot,
                waiter,
                refusal,
            } => {
                sections.insert(waiter.section, to);
                self.with_key(to, |key, cx| key.on_lost(slot, *waiter, refusal, cx));
            }
            Move::Return(waiting) => {
                // The caller's next command must find it in the line.
                sections.insert(waiting.section, to);
                self.with_key(to, |key, _| key.on_return(waiting));
            }
            Move::Free {
                slot,
                was_waited_for,
            } => self.with_key(to, |key, cx| key.on_free(slot, was_waited_for, cx)),
            Move::Released => self.with_key(to, |key, cx| key.look_by(cx.now())),
        }
    }
}
