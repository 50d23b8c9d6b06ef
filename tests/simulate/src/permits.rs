//! Histories in which all callers ask for permits of one lock. Its slots are the keys of the history.

use std::time::Duration;

use redlock_protocol::{Event, LockParams, Mode, SectionId, Token};

use crate::{
    callers::{Stage, Task, task_of},
    checker::{Belief, Rule},
    draws::Draw,
    names::{BESIDE, GATE, POOL},
    plan::Plan,
    scenario::Scenario,
    world::{Phase, World},
};

/// What is special about them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permits {
    pub(crate) count: u32,
    /// All callers ask for the same, but for the time that they wait, and so are served in order.
    terms: Option<LockParams>,
}

impl Plan {
    pub(crate) fn draw_permits(&mut self, seed: u64) {
        let mut random = Draw::Permits.random(!seed);
        let fits = self.scenario == Scenario::Random && self.fleet.foreign == 0;
        if self.draws.has(Draw::Weights) {
            self.draws.add(Draw::Permits);
        }
        self.draws.keep(Draw::Weights, fits);
        if !self.draws.keep(Draw::Permits, fits) {
            return;
        }
        self.habits.shared = 0;
        self.fleet.keys = random.pick(&[2, 2, 3]);
        // Permits have no order.
        (self.habits.fair, self.habits.fair_at_last) = (0, false);
        self.fleet.permits = Some(Permits {
            count: self.fleet.keys as u32,
            terms: random.chance(700).then(|| self.params(&mut random)),
        });
    }
}

impl World {
    /// The key at which the callers of a history with permits wait.
    pub(crate) fn line_of(&self, key: usize) -> usize {
        self.plan.fleet.permits.map_or(key, |_| 0)
    }

    /// What a caller asks for.
    pub(crate) fn on_terms(&self, params: LockParams) -> LockParams {
        let permits = self.plan.fleet.permits.as_ref();
        let terms = permits.and_then(|permits| permits.terms);
        let terms = terms.filter(|_| self.phase == Phase::Faulty);
        terms.map_or(params, |terms| LockParams {
            wait: params.wait,
            ..terms
        })
    }

    /// Some want more than one permit, or another key with it. In the books they read a key that nobody writes.
    pub(crate) fn draw_weight(
        &mut self,
        (client, task): (usize, usize),
        (key, params): (usize, LockParams),
    ) -> (usize, LockParams) {
        let drawn = self.plan.draws.has(Draw::Weights) && self.phase != Phase::Storm;
        let drawn = drawn && self.random.chance(500);
        let count = self.plan.fleet.keys as u64;
        let one = &mut self.clients[client].tasks[task];
        one.weight = 0;
        if !drawn {
            return (key, params);
        }
        one.weight = 1 + self.random.below(count) as u32;
        if one.weight == 1 || self.random.chance(300) {
            one.others.push((BESIDE, None));
        }
        let params = LockParams {
            mode: Mode::Shared,
            // Those who ask for several are not kept for a while.
            at_least: Duration::ZERO,
            ..params
        };
        (GATE, params)
    }

    pub(crate) fn question(&self, section: SectionId, key: usize, params: LockParams) -> Event {
        let permits = self.plan.fleet.permits.as_ref();
        let key = match permits {
            Some(_) => POOL.into(),
            None => std::sync::Arc::clone(&self.names[key]),
        };
        let permits = permits.map_or(0, |permits| permits.count);
        Event::Ask {
            section,
            key,
            params: LockParams { permits, ..params },
        }
    }

    /// Callers that ask for different things are not served in the order of asking.
    pub(crate) fn is_in_order(&self) -> bool {
        let are_mixed = matches!(self.phase, Phase::Faulty | Phase::Settling);
        let have_several = self.plan.draws.has(Draw::Weights);
        let is_mixed = |permits: &Permits| permits.terms.is_none() && are_mixed || have_several;
        !self.plan.fleet.permits.as_ref().is_some_and(is_mixed)
    }

    /// There are never more holders than permits.
    pub(crate) fn check_permits(&mut self) {
        let Some(Permits { count, .. }) = self.plan.fleet.permits else {
            return;
        };
        let believers = (0..=GATE).flat_map(|slot| self.checker.believers(slot));
        let is_live = |belief: &&Belief| {
            let clock = &self.clients[belief.client].clock;
            !belief.is_careless && clock.read(self.now) < belief.deadline.as_nanos()
        };
        let weight = |belief: &Belief| {
            let task = task_of(belief.section);
            self.clients[belief.client].tasks[task].weight.max(1)
        };
        let used: u32 = believers.filter(is_live).map(weight).sum();
        if used > count {
            let what = format!("{used} of {count} permits are in use");
            self.violation(Rule::Exclusion, what);
        }
    }

    /// A caller has got a permit: which one, its token tells.
    pub(crate) fn find_slot(&mut self, client: usize, task: usize, token: Token) {
        let is_one = self.clients[client].tasks[task].weight == 0;
        if self.plan.fleet.permits.is_some() && is_one {
            let slot = self.checker.key_of(client, token);
            self.clients[client].tasks[task].key = slot.unwrap_or_default();
        }
    }

    /// The first of those who wait for a permit has asked then. Others may have got theirs since.
    pub(crate) fn asked_first(&self) -> Option<u64> {
        self.plan.fleet.permits?;
        let tasks = self.clients.iter().flat_map(|client| &client.tasks);
        // Who wants several waits for the gate before them.
        let is_in_line =
            |task: &&Task| matches!(task.stage, Stage::Asking { .. }) && task.weight == 0;
        let asking = tasks.filter(is_in_line);
        asking.map(|task| task.asked).min()
    }
}
