//! The courses that histories take: by chance, or one after another what a rule is about.

use redlock_protocol::majority;

use crate::{
    MILLI, SECOND,
    agenda::Happening,
    draws::Draw,
    faults::Fault,
    kinds,
    network::Notice,
    node::Left,
    plan::Plan,
    random::Random,
    sickness::Sickness,
    trace,
    witnesses::Witnesses,
    world::{Phase, World},
};

kinds! {
    /// What a history is about.
    #[derive(Default)]
    Scenario {
        /// Anything can go wrong at any time.
        #[default]
        Random = "random",
        /// Nodes are restarted one after the other, while one process holds a lock all the time.
        Rolling = "rolling",
        /// Nodes' clocks step within the guard band, while several locks are renewed.
        Steps = "steps",
        /// A majority of nodes is down for seconds, while callers wait.
        Outage = "outage",
        /// A minority of nodes replies with errors for good.
        Sick = "sick",
        /// Nodes are flushed while locks are held, and nothing else is wrong.
        Losses = "losses",
        /// One node forgets a lock that rests on it: see `witnesses`.
        Witnesses = "witnesses",
    }
}

impl Scenario {
    pub(crate) fn draw(random: &mut Random) -> Self {
        match random.below(100) {
            0..5 => Self::Rolling,
            5..10 => Self::Steps,
            10..14 => Self::Outage,
            14..18 => Self::Sick,
            18..24 => Self::Losses,
            24..28 => Self::Witnesses,
            _ => Self::Random,
        }
    }

    /// How many nodes there are.
    pub(crate) fn nodes(self, random: &mut Random) -> usize {
        match self {
            Self::Random | Self::Steps => random.pick(&[1, 2, 3, 3, 3, 4, 5, 5]),
            _ => random.pick(&[3, 3, 4, 5]),
        }
    }

    /// What is about a majority needs more than two nodes.
    pub(crate) const fn with_nodes(self, count: usize) -> Self {
        match self {
            Self::Steps => self,
            _ if count < 3 => Self::Random,
            _ => self,
        }
    }

    /// The longest lease, as a power of two.
    pub(crate) fn octave(self, random: &mut Random) -> u64 {
        match self {
            // Now and then much longer than the longest round, so that what was granted decides how
            // long a node stays out that has lost its memory.
            Self::Random if random.chance(200) => 6 + random.below(3),
            Self::Random => random.below(6),
            Self::Rolling => 3 + random.below(6),
            Self::Steps => 3 + random.below(3),
            Self::Outage | Self::Sick => 2 + random.below(4),
            Self::Losses => 2 + random.below(6),
            Self::Witnesses => 8,
        }
    }

    pub(crate) fn guard_band(self, lease: u64, random: &mut Random) -> u64 {
        match self {
            Self::Steps => random.pick(&[lease / 10, lease / 3, 500 * MILLI]),
            _ => {
                let (few, tenth) = (5 * MILLI, lease / 10);
                random.pick(&[0, 0, 0, few, few, tenth, tenth, 500 * MILLI])
            }
        }
    }

    /// How many processes, and how many tasks each of them has.
    pub(crate) fn size(self, random: &mut Random) -> (usize, usize) {
        let tasks = random.pick(&[1, 2, 3, 6]);
        match self {
            Self::Random if random.chance(30) => (random.between(5, 20) as usize, 1),
            Self::Random if random.chance(30) => (2, random.between(12, 48) as usize),
            Self::Outage => (random.pick(&[2, 3, 8]), tasks),
            Self::Steps => (random.pick(&[2, 3]), random.pick(&[2, 3])),
            Self::Rolling => (random.pick(&[2, 3]), random.pick(&[1, 2])),
            Self::Witnesses => (random.pick(&[2, 3]), 1),
            _ => (random.pick(&[2, 2, 2, 3, 3, 4]), tasks),
        }
    }

    pub(crate) fn keys(self, random: &mut Random) -> usize {
        match self {
            Self::Steps | Self::Rolling => 3,
            Self::Witnesses => 1,
            _ => random.pick(&[1, 1, 1, 2, 3]),
        }
    }
}

impl Plan {
    /// Makes the drawn plan one for its scenario.
    pub(crate) fn adapt(&mut self, random: &mut Random) {
        if self.scenario == Scenario::Random {
            return;
        }
        let ttl = self.max_ttl().as_nanos() as u64;
        self.late = 0;
        self.half_open_at_last = false;
        self.habits.cancel = 0;
        self.habits.stuck = 0;
        self.servers.evicting = None;
        self.fleet.assume_fresh = self.draws.has(Draw::FreshLosses);
        self.servers.young = false;
        self.min_validity = self.lease / 10;
        self.node_timeout = self.lease / 2;
        match self.scenario {
            Scenario::Random => {}
            Scenario::Rolling => {
                self.servers.durable = 0;
                self.fleet.blind = false;
                self.habits.think_longest = SECOND;
                self.habits.hold_longest = SECOND / 10;
                let rounds = random.between(1, 2) * self.servers.count as u64;
                self.active = rounds * (2_500 * MILLI + ttl);
            }
            Scenario::Steps => {
                self.active = 8 * self.lease;
                self.habits.extend = 0;
            }
            Scenario::Outage => {
                self.active = random.between(4, 9) * SECOND;
                self.habits.think_longest = SECOND / 10;
            }
            Scenario::Sick => {
                self.active = 4 * self.lease + 2 * SECOND;
                self.habits.think_longest = self.active / 20;
            }
            Scenario::Losses => {
                self.active = 6 * self.lease;
                self.habits.hold_longest = 4 * self.lease;
                self.servers.quiet = 0;
            }
            Scenario::Witnesses => {
                self.active = 2 * ttl;
                self.habits.think_longest = SECOND;
                self.habits.hold_longest = 10 * MILLI;
                self.servers.durable = 0;
                self.fleet.default_share = 1;
                self.fleet.mixed_defaults = false;
                self.witnesses = Some(Witnesses::draw(random));
                if self.fleet.assume_fresh {
                    self.fleet.starts = vec![0; 3];
                }
            }
        }
    }

    /// One caller holds its lock for as long as the history goes on.
    pub(crate) fn is_leader(&self, client: usize, task: usize) -> bool {
        match self.scenario {
            Scenario::Rolling | Scenario::Witnesses => client == 0 && task == 0,
            Scenario::Steps => client < 2 && task == 0,
            _ => false,
        }
    }
}

impl World {
    /// The next thing that a scenario has planned.
    pub(crate) fn act(&mut self, step: u64) {
        if self.phase != Phase::Faulty {
            return;
        }
        let pause = match self.plan.scenario {
            Scenario::Random => return,
            Scenario::Rolling => self.roll(step),
            Scenario::Steps => self.step_clocks(step),
            Scenario::Outage => self.fail_majority(step),
            Scenario::Sick => self.sicken(step),
            Scenario::Losses => self.flush_some(step),
            Scenario::Witnesses => {
                let witnesses = self.plan.witnesses;
                witnesses.and_then(|witnesses| self.forget_one(witnesses, step))
            }
        };
        if let Some(pause) = pause {
            let next = Happening::Act { step: step + 1 };
            self.agenda.at(self.now + pause, next);
        }
    }

    /// Restarts one node, and leaves time for it to vote again and to get its keys back.
    fn roll(&mut self, step: u64) -> Option<u64> {
        if step == 0 {
            return Some(self.plan.lease);
        }
        let node = step as usize % self.nodes.len();
        let left = self.random.pick(&[Left::Nothing, Left::Snapshot]);
        self.hit(Fault::EmptyRestart, None);
        trace!(self, "!! node {node} is restarted: {left:?}");
        for saved in 0..self.nodes.len() {
            if self.random.chance(300) {
                self.nodes[saved].save();
            }
        }
        self.down(node, Some(left), Notice::Soon);
        let away = 1 + self.random.below(200 * MILLI);
        self.agenda.at(self.now + away, Happening::Up { node });
        self.expect_vote(node, self.now + away);
        let ttl = self.plan.max_ttl().as_nanos() as u64;
        Some(away + 2_200 * MILLI + ttl + ttl / 50)
    }

    /// One step forward within each lease at the most, and all steps together within the guard band
    /// of any lock.
    fn step_clocks(&mut self, step: u64) -> Option<u64> {
        let several = self.random.chance(700);
        let first = self.random.index(self.nodes.len());
        for node in 0..self.nodes.len() {
            if !several && node != first {
                continue;
            }
            self.hit(Fault::NodeClockStep, None);
            let ahead = if step.is_multiple_of(2) {
                self.random.below(self.plan.guard_band)
            } else {
                0
            };
            trace!(self, "!! node {node}'s clock is {ahead} ahead");
            self.nodes[node].set_ahead(self.now, ahead);
        }
        Some(self.plan.lease * 5 / 4)
    }

    fn fail_majority(&mut self, step: u64) -> Option<u64> {
        let nodes = self.nodes.len();
        match step {
            0 => Some(SECOND / 2),
            1 => {
                let first = self.random.index(nodes);
                let back = self.plan.active - SECOND / 2;
                for place in first..first + majority(nodes) {
                    let node = place % nodes;
                    self.hit(Fault::NodeCrash, None);
                    self.down(node, None, Notice::Soon);
                    self.agenda.at(back, Happening::Up { node });
                }
                // What is under way and what was held are over by then.
                Some(SECOND.max(self.plan.lease * 3 / 2))
            }
            2 => {
                self.begin_outage();
                Some((self.plan.active - SECOND * 3 / 4).saturating_sub(self.now))
            }
            _ => {
                self.end_outage();
                None
            }
        }
    }

    fn sicken(&mut self, step: u64) -> Option<u64> {
        if step == 0 {
            return Some(self.random.below(SECOND / 2));
        }
        let nodes = self.nodes.len();
        let first = self.random.index(nodes);
        for place in first..first + nodes - majority(nodes) {
            let kind = self.random.pick(&Sickness::FOR_GOOD);
            self.sicken_for_good(place % nodes, kind);
        }
        None
    }

    fn flush_some(&mut self, step: u64) -> Option<u64> {
        if step == 0 {
            return Some(60 * MILLI + self.random.below(self.plan.lease));
        }
        let nodes = self.nodes.len();
        let first = self.random.index(nodes);
        let count = self.random.between(1, nodes as u64) as usize;
        for place in first..first + count {
            if self.may_forget(place % nodes) {
                self.flush(place % nodes);
            }
        }
        Some(self.random.pick(&[MILLI, 30 * MILLI, self.plan.lease]))
    }
}
