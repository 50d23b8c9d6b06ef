//! Callers that ask for several keys of a history: all or none.

use std::{iter, sync::Arc};

use redlock_protocol::{Event, LockParams, Member, Mode, Order, Owner, SectionId, Token};

use crate::{
    callers::Task,
    checker::{Rule, owner_of},
    draws::Draw,
    names::{GATE, KEYS, POOL, index_of},
    plan::{Plan, Profile},
    scenario::Scenario,
    world::{Phase, World},
};

/// The rounds that one attempt to get several keys takes at the most, one after the other: for the first key, for the
/// others, and until all tokens are above each other's.
const ROUNDS: u32 = 3;

/// The same, if nodes are slow and disagree.
const MOST_ROUNDS: u32 = 10;

impl Plan {
    pub(crate) fn draw_sets(&mut self, seed: u64) {
        let mut random = Draw::Sets.random(!seed);
        let is_plain = self.scenario == Scenario::Random && self.fleet.foreign == 0;
        let fits = is_plain && self.fleet.permits.is_none();
        if !self.draws.keep(Draw::Sets, fits) {
            return;
        }
        self.fleet.keys = random.pick(&[2, 3]);
        self.habits.sets = random.pick(&[100, 500, 900]);
        // Those who ask for several are neither in order, nor kept for a while.
        self.habits.at_least = 0;
        (self.habits.fair, self.habits.fair_at_last) = (0, false);
    }
}

impl Task {
    /// It asks for several keys.
    pub(crate) const fn is_of_several(&self) -> bool {
        self.weight > 0 || !self.others.is_empty()
    }

    /// Its keys, and under which owners it has them. Nobody knows which permits one has that has several.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (usize, Option<Owner>)> {
        let first = (self.weight == 0).then_some((self.key, self.owner));
        first.into_iter().chain(self.others.iter().copied())
    }

    /// Its keys, and whether it shares them.
    pub(crate) fn modes(&self) -> impl Iterator<Item = (usize, Mode)> {
        let others = self.others.iter().map(|&(key, _)| (key, self.modes[key]));
        iter::once((self.key, self.params.mode)).chain(others)
    }
}

impl World {
    pub(crate) fn rounds_of_several(&self) -> u32 {
        match self.phase == Phase::Calm && !self.plan.may_disagree() {
            true => ROUNDS,
            false => MOST_ROUNDS,
        }
    }

    /// The keys beside this one that a caller asks for with it.
    pub(crate) fn draw_others(&mut self, client: usize, task: usize, key: usize) {
        let others = self.drawn_others(key);
        let one = &mut self.clients[client].tasks[task];
        for &(key, _) in &others {
            one.modes[key] = self.plan.mode(&mut self.random);
        }
        one.others = others;
    }

    fn drawn_others(&mut self, key: usize) -> Vec<(usize, Option<Owner>)> {
        let sets = self.plan.habits.sets;
        // Histories without them take the course that they took before there were any.
        let drawn = sets > 0 && self.phase != Phase::Storm && self.random.chance(sets);
        let mut others: Vec<usize> = (0..self.plan.fleet.keys).filter(|&it| it != key).collect();
        if !drawn || others.is_empty() {
            return Vec::new();
        }
        // Not always all of them.
        if others.len() > 1 && self.random.chance(500) {
            others.swap_remove(self.random.index(others.len()));
        }
        others.into_iter().map(|key| (key, None)).collect()
    }

    pub(crate) fn keys_of(&self, client: usize, task: usize) -> Vec<usize> {
        let keys = self.clients[client].tasks[task].modes();
        keys.map(|(key, _)| key).collect()
    }

    pub(crate) fn disbelieve_all(&mut self, client: usize, task: usize) {
        let section = self.clients[client].tasks[task].section;
        for key in self.keys_of(client, task) {
            self.disbelieve(key, client, section);
        }
    }

    /// The key of an order is asked for while the process has not released it under another owner. When one
    /// of several keys is lost, that follows in the same step.
    pub(crate) fn on_unreleased(&mut self, client: usize, order: &Order, what: String) {
        // When one of the permits of a section is lost, nobody knows which ones are released later.
        if self.plan.draws.has(Draw::Weights) {
            return;
        }
        if self.plan.habits.sets == 0 {
            return self.violation(Rule::Line, what);
        }
        let asked = owner_of(&order.body).map(|(key, _)| index_of(key));
        self.unreleased.extend(asked.map(|key| (client, key, what)));
    }

    /// A process has done all that follows from one event.
    pub(crate) fn end_step(&mut self) {
        for (client, key, what) in std::mem::take(&mut self.unreleased) {
            if self.checker.is_unreleased(client, key) {
                self.violation(Rule::Line, what);
            }
        }
    }

    /// In whatever order.
    pub(crate) fn question_for_all(
        &mut self,
        (client, task): (usize, usize),
        section: SectionId,
        params: LockParams,
    ) -> Event {
        let names = self.names.clone();
        let weight = self.clients[client].tasks[task].weight;
        let permits = self.plan.fleet.permits.map_or(0, |permits| permits.count);
        let member = |(key, mode): (usize, Mode)| match key {
            GATE => Member {
                permits,
                weight,
                ..Member::alone(POOL.into())
            },
            _ => Member {
                mode,
                ..Member::alone(Arc::clone(&names[key]))
            },
        };
        let modes = self.clients[client].tasks[task].modes();
        let mut members: Vec<_> = modes.map(member).collect();
        for last in 1..members.len() {
            members.swap(last, self.random.index(last + 1));
        }
        Event::AskAll {
            section,
            members,
            params,
        }
    }

    /// The token of a section with several keys is above all earlier ones of each.
    pub(crate) fn on_token_of_all(&mut self, client: usize, task: usize, token: Token) {
        let one = &self.clients[client].tasks[task];
        // Of several permits it may be any one's, or the gate's.
        let reported: Vec<_> = match one.weight {
            0 => self.keys_of(client, task),
            _ => (0..KEYS).collect(),
        };
        let keys = one.modes().filter(|&(key, _)| key != GATE);
        let (asked, keys) = (one.asked, keys.collect::<Vec<_>>());
        let process = (client, self.clients[client].incarnation);
        let exclusive = self.plan.profile == Profile::Inside || !self.clocks_stepped;
        let is_reported = |&key: &_| self.checker.is_reported(client, key, token);
        if !reported.iter().any(is_reported) {
            let what =
                format!("client {client} gets {token} for {keys:?}, which no majority reported");
            self.violation(Rule::Token, what);
        }
        for (key, mode) in keys {
            let place = (process, key);
            let (token, times) = ((token, mode), (Some(asked), self.now));
            let (grant, wrong) = self.checker.on_token(place, token, times, exclusive);
            self.judge_token(client, key, &grant, wrong);
        }
    }
}
