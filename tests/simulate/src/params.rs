//! What callers ask for.

use std::time::Duration;

use redlock_protocol::{LockParams, Mode};

use crate::{
    MILLI, SECOND,
    draws::Draw,
    faults::Fault,
    plan::{Plan, nanos},
    random::Random,
    scenario::Scenario,
};

impl Plan {
    /// What one caller asks for.
    pub(crate) fn params(&self, random: &mut Random) -> LockParams {
        let shortest = self.lease.min(10 * MILLI);
        let lease = (self.lease / random.pick(&[1, 1, 1, 2, 4, 12])).max(shortest);
        let renew = random.pick(&[None, Some(lease / 3), Some(lease / 8)]);
        let most = lease * random.between(10, 30) / 10;
        let max_hold = random.pick(&[None, None, Some(most)]);
        // Never so long that the key TTL is longer than that of the longest lease.
        let more = random.pick(&[0, 0, (self.lease - lease) / 2]);
        let mode = self.mode(random);
        let is_kept = mode == Mode::Exclusive && random.chance(self.habits.at_least);
        let at_least = lease
            / if is_kept {
                random.pick(&[1, 2, 8])
            } else {
                u64::MAX
            };
        LockParams {
            mode,
            lease: nanos(lease),
            guard_band: nanos(self.guard_band + more),
            node_timeout: nanos(self.node_timeout.min(lease)),
            min_validity: nanos(self.min_validity.min(lease / 2)),
            wait: nanos(random.pick(&[0, lease / 2, 2 * lease, 5 * self.lease])),
            renew: renew.map(nanos),
            max_hold: max_hold.filter(|_| renew.is_some()).map(nanos),
            at_least: nanos(at_least),
            permits: 0,
            is_fair: mode == Mode::Exclusive && random.chance(self.habits.fair),
        }
    }

    /// Whether one caller shares its lock.
    pub(crate) fn mode(&self, random: &mut Random) -> Mode {
        match random.chance(self.habits.shared) {
            true => Mode::Shared,
            false => Mode::Exclusive,
        }
    }

    /// A node that deletes nothing makes each fair caller that asks it first wait for a second.
    pub(crate) fn is_fair_at_last(&self) -> bool {
        let is_sick =
            self.scenario == Scenario::Sick || self.faults.contains(&Fault::ErrorsForGood);
        self.habits.fair_at_last && self.habits.shared == 0 && !is_sick
    }

    /// What callers ask for once all is calm: as long a wait as it can take for all of them to
    /// get their turn, for every key that nobody comes for to expire, also on a node whose clock
    /// was stepped back, and for a dead connection to be given up.
    pub(crate) fn calm_params(&self, stepped_back: u64) -> LockParams {
        let callers = self.fleet.starts.len() * self.fleet.tasks * self.fleet.keys;
        let is_hard = self.far > 0 || self.draws.has(Draw::SickLinks);
        let turn = if is_hard { SECOND } else { 100 * MILLI };
        let turns = callers as u64 * turn;
        LockParams {
            wait: 2 * self.longest_life() + nanos(stepped_back + 3 * SECOND + turns),
            is_fair: self.is_fair_at_last(),
            ..self.plain_params()
        }
    }

    /// An attempt that is over before the winner lets go, and lasts for ten round trips at the least:
    /// so that a split comes to an end.
    pub(crate) fn storm_params(&self, random: &mut Random) -> LockParams {
        LockParams {
            mode: self.mode(random),
            node_timeout: nanos(self.lease * 2 / 5),
            is_fair: self.is_fair_at_last(),
            ..self.plain_params()
        }
    }

    /// A lock for one attempt, with nothing special about it.
    pub(crate) fn plain_params(&self) -> LockParams {
        LockParams {
            mode: Mode::Exclusive,
            lease: nanos(self.lease),
            guard_band: nanos(self.guard_band),
            node_timeout: nanos(self.node_timeout.max(self.lease / 4)),
            min_validity: nanos(self.lease / 10),
            wait: Duration::ZERO,
            renew: None,
            max_hold: None,
            permits: 0,
            at_least: Duration::ZERO,
            is_fair: false,
        }
    }
}
