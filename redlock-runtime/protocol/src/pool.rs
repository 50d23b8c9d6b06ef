//! A lock with permits: so many sections of the whole fleet have it at a time.
//!
//! It has a *slot* for each permit, which is a lock of its own with a key of its own, so a majority of
//! nodes decides each of them and there are never more holders than slots.
//!
//! Callers of one process that ask for the same wait in one pool, in order. For each caller the pool asks for
//! one slot at a time, by an ordinary section and without waiting. After a refusal it asks for the next slot,
//! and also after an attempt that takes long, if the caller waits. If all slots have refused a caller that
//! waits, the pool asks for *all* slots and waits for each, also for those that this process has: they pass from
//! section to section without any node. The slot that is granted first is given to the first caller, and the
//! pool forgets it. Slots that no caller needs any more are let go.

mod callers;

use std::{sync::Arc, time::Duration};

use self::callers::{Caller, Callers};
use crate::{
    action::{Answer, Cause, Refusal},
    message::SectionId,
    rules::{token::slot_key, validity::LockParams},
    time::Instant,
};

/// What the callers of one pool have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Terms {
    pub(crate) key: Arc<str>,
    pub(crate) permits: u32,
    /// `wait` is zero.
    pub(crate) params: LockParams,
}

/// An attempt can take as long as a round may, if keys that no client comes for keep it from a majority.
/// Another slot may be free meanwhile, and is asked for after a quarter of that time, or after this, if the
/// caller waits. Of those that do not wait each asks for one slot at a time, so that of many that ask at
/// once as many win as there are slots.
const LONGEST_HEDGE: Duration = Duration::from_millis(50);

/// A lock has no more permits.
pub const MOST_SLOTS: u32 = 64;

#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) terms: Terms,
    slots: Vec<Slot>,
    /// Where it begins to ask: another slot than most other processes.
    start: usize,
    callers: Callers,
    /// A caller was refused all slots: all of them are waited for.
    is_waiting: bool,
    /// Counts callers, refusals and grants.
    events: u64,
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Slot {
    key: Arc<str>,
    asked: Option<Asked>,
    /// When it was refused or granted last, as `Pool::events` counts.
    taken_at: u64,
    /// Why it cannot be had.
    refusal: Option<Refusal>,
}

/// A section that asks for a slot.
#[derive(Clone, Copy, Debug)]
struct Asked {
    section: SectionId,
    /// Its last attempt is made then.
    until: Instant,
    /// When another slot is asked for as well, if it does not wait.
    late_at: Instant,
}

/// What is to be done for it.
#[derive(Debug)]
pub(crate) enum Step {
    /// A slot is asked for by this section.
    Ask {
        section: SectionId,
        key: Arc<str>,
        params: LockParams,
        /// It is on behalf of one that waits, and so does not go before other processes that do.
        gives_way: bool,
    },
    /// A section is not needed any more.
    End(SectionId),
    /// The slot of a section is the caller's.
    Give {
        section: SectionId,
        caller: SectionId,
        granted: Answer,
    },
    /// A caller has waited in vain.
    Refuse { caller: SectionId, refusal: Refusal },
}

/// What a pool acts with.
pub(crate) struct Around<'a> {
    pub(crate) now: Instant,
    /// The last section of any pool.
    pub(crate) last_section: &'a mut SectionId,
    /// What keeps a section that waits from its key.
    pub(crate) refusal_of: &'a dyn Fn(SectionId) -> Option<Refusal>,
    /// A section of this process has the key, and asking for it is in vain.
    pub(crate) is_held: &'a dyn Fn(&str) -> bool,
}

impl Pool {
    pub(crate) fn new(terms: Terms, random: u128) -> Self {
        let slot = |number| Slot {
            key: slot_key(&terms.key, number),
            asked: None,
            taken_at: 0,
            refusal: None,
        };
        Self {
            slots: (0..terms.permits).map(slot).collect(),
            start: (random % u128::from(terms.permits.max(1))) as usize,
            terms,
            callers: Callers::default(),
            is_waiting: false,
            events: 0,
            steps: Vec::new(),
        }
    }

    pub(crate) fn take_steps(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.steps)
    }

    /// No caller is left, and so nothing is asked for.
    pub(crate) fn is_idle(&self) -> bool {
        self.callers.len() == 0
    }

    /// When it goes on by itself.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Instant> {
        let asked = self.slots.iter().filter_map(|slot| slot.asked);
        let asked = asked.filter(|asked| !self.is_waiting && asked.late_at > now);
        let late = asked.map(|asked| asked.late_at).min();
        late.into_iter().chain(self.callers.next_end(now)).min()
    }

    // ---- callers

    pub(crate) fn join(&mut self, section: SectionId, wait: Duration, now: Instant) {
        self.events += 1;
        self.callers.join(Caller {
            section,
            wait_until: (!wait.is_zero()).then(|| now.after(wait)),
            joined_at: self.events,
        });
    }

    pub(crate) fn leave(&mut self, section: SectionId) {
        self.callers.leave(section);
    }

    // ---- slots

    /// A section has its slot, and no other one of this process can have it.
    pub(crate) fn on_granted(&mut self, section: SectionId, granted: Answer) {
        if !self.on_taken(section, Refusal::CONTENDED) {
            return;
        }
        self.steps.push(match self.callers.pop() {
            Some(Caller {
                section: caller, ..
            }) => Step::Give {
                section,
                caller,
                granted,
            },
            None => Step::End(section),
        });
    }

    pub(crate) fn on_refused(&mut self, section: SectionId, refusal: Refusal) {
        if !self.on_taken(section, refusal.clone()) || refusal.is_contended() {
            return;
        }
        // The other slots have the same nodes.
        for slot in &mut self.slots {
            slot.taken_at = self.events;
        }
        if refusal.cause == Cause::Stopped {
            self.refuse_all(|_| true, &refusal);
        }
    }

    /// The slot that the section has asked for cannot be had by another one. False if it asks for none.
    fn on_taken(&mut self, section: SectionId, refusal: Refusal) -> bool {
        let is_it = |slot: &&mut Slot| slot.asked.is_some_and(|asked| asked.section == section);
        let Some(slot) = self.slots.iter_mut().find(is_it) else {
            return false;
        };
        self.events += 1;
        slot.asked = None;
        slot.taken_at = self.events;
        slot.refusal = Some(refusal);
        true
    }

    // ---- going on

    pub(crate) fn advance(&mut self, mut around: Around<'_>) {
        self.refuse_first(&around);
        self.refuse_late(&around);
        if self.is_idle() {
            self.is_waiting = false;
        }
        if self.is_waiting {
            self.wait_for_all(&mut around);
        } else {
            self.ask_for_one_each(&mut around);
        }
    }

    /// The first callers have been refused every slot since they joined. Those who do not wait are told;
    /// once another one is first, all slots are waited for, and who waits goes before who does not.
    fn refuse_first(&mut self, around: &Around<'_>) {
        while let Some(first) = self.callers.first() {
            let is_late = |asked: Asked| asked.late_at <= around.now;
            let is_taken = |slot: &Slot| {
                let is_late = first.wait_until.is_some() && slot.asked.is_some_and(is_late);
                slot.taken_at > first.joined_at || is_late
            };
            if !self.is_waiting && !self.slots.iter().all(is_taken) {
                return;
            }
            if first.wait_until.is_some() {
                self.is_waiting = true;
                break;
            }
            let refusal = self.refusal(around);
            self.callers.pop();
            self.steps.push(Step::Refuse {
                caller: first.section,
                refusal,
            });
        }
        if self.is_waiting && self.callers.has_impatient() {
            let refusal = self.refusal(around);
            self.refuse_all(|caller| caller.wait_until.is_none(), &refusal);
        }
    }

    /// Callers whose time is up, unless an attempt is under way that may still be for them.
    fn refuse_late(&mut self, around: &Around<'_>) {
        if !self.callers.has_late(around.now) {
            return;
        }
        let asked = self.slots.iter().filter_map(|slot| slot.asked);
        let first_end = asked.map(|asked| asked.until).min();
        let is_late = |caller: &Caller| {
            let end = caller.wait_until.filter(|&end| end <= around.now);
            end.is_some_and(|end| first_end.is_none_or(|first| first > end))
        };
        let refusal = self.refusal(around);
        self.refuse_all(is_late, &refusal);
    }

    fn refuse_all(&mut self, is_refused: impl Fn(&Caller) -> bool, refusal: &Refusal) {
        for Caller { section, .. } in self.callers.take_if(is_refused) {
            self.steps.push(Step::Refuse {
                caller: section,
                refusal: refusal.clone(),
            });
        }
    }

    /// Until the last caller stops waiting.
    fn wait_for_all(&mut self, around: &mut Around<'_>) {
        let until = self.callers.last_end();
        let Some(until) = until.filter(|&until| until > around.now) else {
            return;
        };
        for slot in 0..self.slots.len() {
            if self.slots[slot].asked.is_none() {
                self.ask(slot, (until, false), around);
            }
        }
    }

    /// One slot is asked for on behalf of each caller, and a further one once that is late. What is asked for
    /// beside these is not needed any more.
    fn ask_for_one_each(&mut self, around: &mut Around<'_>) {
        let count = self.slots.len();
        let mut order: Vec<usize> = (self.start..self.start + count).collect();
        order.iter_mut().for_each(|slot| *slot %= count);
        let mut place = 0;
        while let Some(caller) = self.callers.behind(place)
            && !order.is_empty()
        {
            while self.asks_for_another(caller, &mut order, around) {}
            place = caller.joined_at;
        }
        for slot in order {
            let ended = self.slots[slot].asked.take();
            self.steps
                .extend(ended.map(|asked| Step::End(asked.section)));
        }
    }

    /// Takes a slot out of the order for a caller: the one that was asked for first, of those that have not
    /// been refused since it joined, and last one that this process has. True if it is late.
    fn asks_for_another(
        &mut self,
        caller: Caller,
        order: &mut Vec<usize>,
        around: &mut Around<'_>,
    ) -> bool {
        let turn = |&slot: &usize| {
            let Slot { key, asked, .. } = &self.slots[slot];
            let asked_at = asked.map_or(SectionId(u64::MAX), |asked| asked.section);
            (asked_at, asked.is_none() && (around.is_held)(key))
        };
        let is_open = |slot: &usize| self.slots[*slot].taken_at <= caller.joined_at;
        let Some(slot) = order.iter().copied().filter(is_open).min_by_key(turn) else {
            return false;
        };
        order.retain(|&other| other != slot);
        if let Some(asked) = self.slots[slot].asked {
            return caller.wait_until.is_some() && asked.late_at <= around.now;
        }
        let gives_way = caller.wait_until.is_some();
        self.ask(slot, (around.now, gives_way), around);
        false
    }

    fn ask(&mut self, slot: usize, (until, gives_way): (Instant, bool), around: &mut Around<'_>) {
        around.last_section.0 += 1;
        let section = *around.last_section;
        let hedge_delay = LONGEST_HEDGE.min(self.terms.params.round_timeout() / 4);
        let slot = &mut self.slots[slot];
        slot.asked = Some(Asked {
            section,
            until,
            late_at: around.now.after(hedge_delay),
        });
        let key = Arc::clone(&slot.key);
        let params = LockParams {
            wait: until.since(around.now),
            ..self.terms.params
        };
        self.steps.push(Step::Ask {
            section,
            key,
            params,
            gives_way,
        });
    }

    /// Why no slot can be had: an outage if there is one, because a slot may be free then, and otherwise
    /// the slot that can be free first.
    fn refusal(&self, around: &Around<'_>) -> Refusal {
        let of_slot = |slot: &Slot| {
            let asked = slot.asked.and_then(|it| (around.refusal_of)(it.section));
            asked.or_else(|| slot.refusal.clone())
        };
        let refusals = self.slots.iter().filter_map(of_slot);
        let first = refusals.min_by_key(|refusal| match refusal.cause {
            Cause::Contended { retry_after } => (true, retry_after.unwrap_or(Duration::MAX)),
            _ => (false, Duration::ZERO),
        });
        first.unwrap_or(Refusal::CONTENDED)
    }
}
