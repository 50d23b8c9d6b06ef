//! What few histories have. Each of them is drawn by a chance of its own: what else is drawn for a seed is the
//! same with and without it.

use crate::{MILLI, SECOND, kinds, plan::Plan, random::Random, scenario::Scenario};

kinds! {
    /// What few histories have, or none that does not ask for it.
    Draw {
        /// All callers ask for permits of one lock.
        Permits = "permits",
        /// Some callers ask for several keys at once.
        Sets = "sets",
        /// Six nodes, or seven.
        ManyNodes = "many_nodes",
        /// Up to a hundred processes.
        Crowd = "crowd",
        /// Leases of minutes.
        LongLeases = "long_leases",
        /// Ways between clients and nodes of up to 40 ms.
        Far = "far",
        /// Something is wrong for good between some clients and some nodes, and with neither of them.
        SickLinks = "sick_links",
        /// Sick links are those over which few requests get through.
        NarrowLinks = "narrow_links",
        /// A node that goes when the faults end, and does not come back.
        Gone = "gone",
        /// A node that has noted another longest lease than that of all clients.
        OddNode = "odd_node",
        /// A counter that is far ahead, where memory is lost.
        FarCounters = "far_counters",
        /// Processes that let nodes vote at once, where memory is lost.
        FreshLosses = "fresh_losses",
        /// Connections that something on the way forgets while nobody wants anything.
        IdleDeaths = "idle_deaths",
        /// Some callers ask for several permits at once, or for some and another key.
        Weights = "weights",
    }
}

/// Some of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Draws(u32);

const SALT: u64 = 0x64_7261_7773_1123;

impl Draw {
    /// One history in so many may have it. None does by itself in which something is known to be wrong: see
    /// `SIMULATION.md`.
    const fn one_in(self) -> u64 {
        match self {
            Self::Permits | Self::Sets => 6,
            Self::ManyNodes | Self::Far | Self::Weights => 20,
            Self::SickLinks | Self::Gone | Self::IdleDeaths => 10,
            Self::FarCounters | Self::FreshLosses => 10,
            Self::OddNode => 40,
            Self::LongLeases | Self::Crowd => 1_000,
            Self::NarrowLinks => u64::MAX,
        }
    }

    /// Chance of its own.
    pub(crate) fn random(self, seed: u64) -> Random {
        Random::new(seed ^ SALT.rotate_left(self as u32))
    }
}

impl Draws {
    /// Those of one history: what is wanted, and what chance adds.
    pub(crate) fn draw(self, seed: u64) -> Self {
        let mut drawn = self;
        for draw in Draw::ALL {
            if draw.random(seed).below(draw.one_in()) == 0 {
                drawn.add(draw);
            }
        }
        drawn
    }

    pub(crate) const fn add(&mut self, draw: Draw) {
        self.0 |= 1 << draw as u32;
    }

    pub(crate) const fn has(self, draw: Draw) -> bool {
        self.0 & 1 << draw as u32 != 0
    }

    /// Keeps one only if it fits what else was drawn.
    pub(crate) const fn keep(&mut self, draw: Draw, fits: bool) -> bool {
        if !fits {
            self.0 &= !(1 << draw as u32);
        }
        self.has(draw)
    }

    /// The longest lease of a history for which this one was drawn.
    pub(crate) fn lease(&mut self, seed: u64, scenario: Scenario, drawn: u64) -> u64 {
        let mut random = Draw::LongLeases.random(!seed);
        match self.keep(Draw::LongLeases, scenario == Scenario::Random) {
            true => random.between(60, 300) * SECOND,
            false => drawn,
        }
    }
}

impl Plan {
    /// What few histories have, but for permits and sets.
    pub(crate) fn draw_rare(&mut self, seed: u64) {
        let is_random = self.scenario == Scenario::Random;
        let nodes = self.servers.count;
        self.draws.keep(Draw::ManyNodes, nodes > 5);
        if self
            .draws
            .keep(Draw::Crowd, is_random && self.fleet.foreign == 0)
        {
            let processes = Draw::Crowd.random(!seed).between(30, 100);
            self.fleet.starts = vec![0; processes as usize];
            self.fleet.tasks = 1;
        }
        let way = Draw::Far.random(!seed).pick(&[4, 16, 40]) * MILLI;
        // A lock that is won in three rounds is worth having.
        let way = way.min(self.lease / 64);
        if self.draws.keep(Draw::Far, is_random && way > MILLI) {
            self.far = way;
            self.node_timeout = self.node_timeout.max(6 * way);
            self.min_validity = self.min_validity.min(self.lease / 4);
        }
        if self.draws.has(Draw::NarrowLinks) {
            self.draws.add(Draw::SickLinks);
        }
        let can_be_sick = is_random && nodes > 2 && self.fleet.foreign == 0;
        self.draws.keep(Draw::NarrowLinks, can_be_sick);
        if self.draws.keep(Draw::SickLinks, can_be_sick) {
            self.servers.evicting = None;
            (self.habits.fair, self.habits.fair_at_last) = (0, false);
        }
        let can_miss_one = is_random && nodes > 2 && self.servers.evicting.is_none();
        self.draws.keep(Draw::Gone, can_miss_one);
        // Two of three are left, and those are all that can be sick.
        let is_enough = can_miss_one && !self.draws.has(Draw::SickLinks);
        self.draws.keep(Draw::OddNode, is_enough);
        self.draws.keep(Draw::FarCounters, self.forgets());
    }
}
