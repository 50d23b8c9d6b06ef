//! A lock that is to be kept for some time is nobody's again before.

use redlock_protocol::Instant;

use crate::{checker::Rule, world::World};

impl World {
    /// A section has got the lock.
    pub(crate) fn check_period(&mut self, client: usize, task: usize, deadline: Instant) {
        let one = &self.clients[client];
        let task = &one.tasks[task];
        let (key, params) = (task.key, task.params);
        let until = task.granted + params.at_least.as_nanos() as u64;
        let until = one.clock.when(until.min(deadline.as_nanos()));
        // No guard band stands between a period and a clock that steps.
        let steps = self.nodes.iter().map(|node| node.stepped_forward);
        let slack = steps.max().unwrap_or(0);
        let kept_until = self.checker.kept_until[key];
        if self.is_careless(client) {
            return;
        }
        if self.now + slack < kept_until {
            let left = (kept_until - self.now) as f64 / 1e6;
            let what = format!("client {client} gets key {key}, which is to be kept for {left} ms");
            self.violation(Rule::Period, what);
        }
        if !params.at_least.is_zero() {
            self.checker.kept_until[key] = kept_until.max(until);
        }
    }
}
