//! What one history is like: drawn once, before it begins.

use std::{fmt::Write, time::Duration};

use crate::{
    MICRO, MILLI, SECOND,
    faults::Harm,
    protocol::{Terms, key_ttl},
    random::Random,
};

/// The most keys that a history has.
pub(crate) const KEYS: usize = 2;

/// Whether the assumptions under which the protocol is safe hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Clocks within 0.4 % of the true time, whose steps the guard band absorbs; wall clocks of
    /// clients that are close together for as long as nodes forget.
    Inside,
    /// Clocks that step as they like.
    Outside,
}

/// Everything that is the same for the whole of a history. Nanoseconds, and per mille.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) profile: Profile,
    pub(crate) nodes: usize,
    pub(crate) clients: usize,
    pub(crate) tasks: usize,
    pub(crate) keys: usize,
    pub(crate) lease: u64,
    pub(crate) guard_band: u64,
    node_timeout: u64,
    min_validity: u64,
    pub(crate) silence_limit: u64,
    /// From never to always.
    pub(crate) busy_from: usize,
    /// How far a client's wall clock can be from the true time.
    pub(crate) skew: u64,
    /// What clients propose has nothing to do with the time.
    pub(crate) timeless: bool,
    /// When faults end.
    pub(crate) active: u64,
    /// The time between two faults, on average.
    pub(crate) fault_pause: u64,
    /// The faults of this history: a few kinds often find more than all of them together.
    pub(crate) harms: Vec<Harm>,
    pub(crate) late: u64,
    pub(crate) late_by: u64,
    pub(crate) cancel: u64,
    /// Holders that ask for more time, at each step of theirs.
    pub(crate) extend: u64,
    /// Holders that do not let go when their lease is over.
    pub(crate) stuck: u64,
    pub(crate) hold_longest: u64,
    pub(crate) think_longest: u64,
    /// When the faults end, all callers end at once instead of going on.
    pub(crate) hasty: bool,
    /// Connections that are half open stay so when the faults end.
    pub(crate) half_open_at_last: bool,
    /// While all is calm, one caller does not let go when its lease is over.
    pub(crate) stuck_at_last: bool,
}

impl Plan {
    pub(crate) fn new(profile: Profile, nodes: Option<usize>, random: &mut Random) -> Self {
        let drawn = random.pick(&[1, 3, 3, 3, 4, 4, 5, 5]);
        // Short leases as often as long ones: each octave is as likely.
        let lease = ((20 * MILLI) << random.below(5)) * random.between(10, 20) / 10;
        let node_timeout = random.pick(&[lease / 20, lease / 4, lease / 2, lease]);
        let mut harms: Vec<Harm> = Harm::STRUCK.to_vec();
        let guard_band = random.pick(&[0, 0, 5 * MILLI, lease / 10]);
        harms.retain(|harm| profile == Profile::Outside || harm.is_inside(guard_band));
        let keeps_memory = random.chance(500);
        harms.retain(|harm| !(keeps_memory && harm.loses_memory()));
        harms.retain(|_| random.chance(400));
        let forget = harms.iter().any(|harm| harm.loses_memory());
        // Where nothing is forgotten, tokens need no clock.
        let bounded = profile == Profile::Inside && forget;
        let skews = [lease / 16, if bounded { lease / 16 } else { 3 * SECOND }];
        Self {
            profile,
            skew: random.pick(&skews),
            timeless: !bounded && random.chance(750),
            nodes: nodes.unwrap_or(drawn),
            clients: random.pick(&[2, 2, 2, 3, 3, 4]),
            tasks: random.pick(&[1, 2, 3, 6]),
            keys: random.pick(&[1, 1, 1, KEYS]),
            lease,
            guard_band,
            node_timeout: node_timeout.max(5 * MILLI),
            min_validity: random.pick(&[lease / 10, lease / 10, lease / 4, MILLI]),
            silence_limit: random.pick(&[50 * MILLI, 200 * MILLI, SECOND]),
            busy_from: random.pick(&[usize::MAX, 1, 0]),
            active: (lease * random.between(3, 6)).min(SECOND),
            fault_pause: lease / random.pick(&[6, 2, 1]),
            harms,
            late: random.pick(&[0, 0, 20, 100]),
            late_by: lease / random.pick(&[8, 2, 1]),
            cancel: random.pick(&[0, 100, 400]),
            extend: random.pick(&[0, 30, 300]),
            stuck: random.pick(&[0, 100]),
            hold_longest: lease / random.pick(&[64, 8, 2, 1]) * random.pick(&[1, 1, 3]),
            think_longest: lease / random.pick(&[64, 8, 2]),
            hasty: random.chance(500),
            half_open_at_last: random.chance(250),
            stuck_at_last: random.chance(100),
        }
    }

    /// What one caller asks for.
    pub(crate) fn terms(&self, random: &mut Random) -> Terms {
        let lease = self.lease / random.pick(&[1, 1, 1, 2]);
        let renew = random.pick(&[None, Some(lease / 3), Some(lease / 8)]);
        let most = lease * random.between(10, 30) / 10;
        let max_hold = random.pick(&[None, None, Some(most)]);
        Terms {
            lease: nanos(lease),
            guard_band: nanos(self.guard_band),
            node_timeout: nanos(self.node_timeout.min(lease)),
            min_validity: nanos(self.min_validity.min(lease / 2)),
            wait: nanos(random.pick(&[0, lease / 2, 2 * lease, 5 * lease])),
            renew: renew.map(nanos),
            max_hold: max_hold.filter(|_| renew.is_some()).map(nanos),
        }
    }

    /// What callers ask for once all is calm: as long a wait as it can take for all of them to
    /// get their turn, for every key that nobody comes for to expire, also on a node whose clock
    /// was stepped back, and for a dead connection to be given up.
    pub(crate) fn calm_terms(&self, stepped_back: u64) -> Terms {
        let lease = nanos(self.lease);
        let callers = self.clients * self.tasks * self.keys;
        let terms = Terms {
            lease,
            guard_band: nanos(self.guard_band),
            node_timeout: nanos(self.node_timeout.max(self.lease / 4)),
            min_validity: nanos(self.lease / 10),
            wait: Duration::ZERO,
            renew: None,
            max_hold: None,
        };
        let turns = callers as u64 * 100 * MILLI;
        Terms {
            wait: 2 * self.longest_life() + nanos(stepped_back + 3 * SECOND + turns),
            ..terms
        }
    }

    /// How long a node that has lost its memory does not vote: as long as the longest key lives.
    pub(crate) fn quarantine(&self) -> Duration {
        key_ttl(nanos(self.lease), nanos(self.guard_band))
    }

    /// The same by the true time, whatever the node's clock does inside of the assumptions.
    pub(crate) const fn least_quarantine(&self) -> u64 {
        self.lease
    }

    /// Of a key, by the true time, from the arrival of the last request for it.
    pub(crate) fn longest_life(&self) -> Duration {
        nanos(self.lease + self.lease / 50 + self.guard_band + 10 * MILLI)
    }

    /// One way between a client and a node, without anything in between.
    pub(crate) fn distance(random: &mut Random) -> u64 {
        random.pick(&[50, 200, 200, 800]) * MICRO
    }

    pub(crate) fn rate(random: &mut Random) -> i64 {
        match random.below(4) {
            0 => -4_000,
            1 => 4_000,
            2 => 0,
            _ => random.below(8_001) as i64 - 4_000,
        }
    }

    /// In one line, for the trace.
    pub(crate) fn summary(&self) -> String {
        let mut text = format!(
            "{} nodes, {} clients with {} tasks, {} keys, lease {:?}",
            self.nodes,
            self.clients,
            self.tasks,
            self.keys,
            nanos(self.lease)
        );
        let _ = write!(
            text,
            ", guard band {:?}, node timeout {:?}, faults {:?}",
            nanos(self.guard_band),
            nanos(self.node_timeout),
            self.harms
        );
        text
    }
}

pub(crate) const fn nanos(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}
