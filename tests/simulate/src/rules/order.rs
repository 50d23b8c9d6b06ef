//! Who came first is served first, if the lock is fair.

use redlock_protocol::{Act, Order, Request, Vote};

use crate::{
    MILLI,
    callers::{Stage, Task},
    checker::Rule,
    names::index_of,
    world::{Phase, World},
};

/// A caller may be passed by one that came so much later, as `Lock::fair` says, and by eight ways.
const CLEAR: u64 = 50 * MILLI;

/// A process whose requests take longer may lose its place: it is left a free lock for 40 ms at the most.
const NEAR: u64 = 15 * MILLI;

/// Clocks differ by so much, and every process tells by its own for how long it has waited.
const DRIFT: u64 = 100;

impl World {
    /// A request is sent.
    pub(crate) fn queue_at(&mut self, order: &Order) {
        if let Request::Vote(Vote { key, .. }, Act::Acquire(Some(_))) = &order.body
            && self.phase == Phase::Calm
        {
            let traffic = &mut self.traffic[index_of(key)];
            let before = traffic.queue_at.replace(order.node);
            traffic.queues_apart |= before.is_some_and(|before| before != order.node);
        }
    }

    /// A section has got the lock.
    pub(crate) fn check_order(&mut self, client: usize, task: usize) {
        let one = &self.clients[client].tasks[task];
        if !one.params.is_fair || !self.keeps_order(one.key) {
            return;
        }
        let farthest = self.farthest();
        let (key, asked) = (one.key, one.asked);
        let others = self.clients.iter().enumerate();
        let others = others.filter(|&(other, _)| other != client);
        let tasks = others.flat_map(|(other, one)| one.tasks.iter().map(move |task| (other, task)));
        let waits = |&(_, task): &(usize, &Task)| {
            task.key == key && matches!(task.stage, Stage::Asking { .. })
        };
        let passed = tasks.filter(waits).min_by_key(|(_, task)| task.asked);
        let Some((other, before)) = passed else {
            return;
        };
        let clear = CLEAR + 8 * farthest + (self.now - before.asked) / DRIFT;
        if before.asked + clear < asked {
            let by = (asked - before.asked) as f64 / 1e6;
            let what = format!(
                "client {client} gets key {key} before client {other}, which asked {by} ms before"
            );
            self.violation(Rule::Order, what);
        }
    }

    /// No node has been in trouble for long, all processes ask the same one first, and an attempt that
    /// one has begun has the time that it takes.
    fn keeps_order(&self, key: usize) -> bool {
        let farthest = self.farthest();
        let all_vote = (0..self.nodes.len()).all(|node| self.can_vote(node));
        let all_tell = self.all_tell();
        let is_calm = self.phase == Phase::Calm && !self.plan.half_open_at_last;
        let fleet = &self.plan.fleet;
        let is_alone = self.foreign.is_empty() && !fleet.mixed_fleet && !fleet.odd;
        // Not if one has found it slow before.
        let is_one = !self.traffic[key].queues_apart;
        let is_known = is_one && !self.plan.may_disagree() && self.all_know_votes();
        let has_time = self.plan.plain_params().round_timeout().as_nanos() as u64 >= 24 * farthest;
        is_calm && is_alone && all_vote && all_tell && is_known && has_time && farthest <= NEAR
    }
}
