//! What one history is like: drawn once, before it begins.

use std::time::Duration;

use redlock_protocol::{BUSY_FROM, key_ttl};

use crate::{
    MICRO, MILLI, SECOND,
    clock::Clock,
    draws::{Draw, Draws},
    faults::Fault,
    kinds,
    names::LOCKS,
    permits::Permits,
    random::Random,
    scenario::Scenario,
    witnesses::Witnesses,
};

kinds! {
    /// Whether the assumptions under which the protocol is safe hold.
    #[derive(Default)]
    Profile {
        /// Clocks within 0.4 % of the true time, whose steps the guard band absorbs.
        #[default]
        Inside = "inside",
        /// Clocks that step as they like.
        Outside = "outside",
    }
}

/// What the command line leaves open.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) profile: Profile,
    pub(crate) nodes: Option<usize>,
    pub(crate) scenario: Option<Scenario>,
    /// Every history that can have these has them.
    pub(crate) draws: Draws,
}

/// What the wall clocks of clients have to do with the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wall {
    /// No further from the true time than `Plan::skew`.
    #[default]
    Near,
    /// They have stopped near zero.
    Stopped,
    /// Days from the true time, each another way.
    Anywhere,
}

/// Everything that is the same for the whole of a history. Nanoseconds, and per mille.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) draws: Draws,
    pub(crate) profile: Profile,
    pub(crate) scenario: Scenario,
    pub(crate) servers: Servers,
    pub(crate) fleet: Fleet,
    pub(crate) habits: Habits,
    /// The longest lease that the fleet uses.
    pub(crate) lease: u64,
    /// The shortest guard band.
    pub(crate) guard_band: u64,
    pub(crate) node_timeout: u64,
    pub(crate) min_validity: u64,
    /// How far a client's wall clock can be from the true time if it is `Near`.
    pub(crate) skew: u64,
    pub(crate) wall: Wall,
    /// When faults end.
    pub(crate) active: u64,
    /// The time between two faults, on average.
    pub(crate) fault_pause: u64,
    /// The faults of this history: a few kinds often find more than all of them together.
    pub(crate) faults: Vec<Fault>,
    pub(crate) late: u64,
    pub(crate) late_by: u64,
    pub(crate) witnesses: Option<Witnesses>,
    /// Connections that are half open stay so when the faults end.
    pub(crate) half_open_at_last: bool,
    /// While all is calm, one caller does not let go when its lease is over.
    pub(crate) stuck_at_last: bool,
    /// The longest way between a client and a node, without anything in between, if it is long.
    pub(crate) far: u64,
    /// What is wrong with links follows from it.
    pub(crate) link_seed: u64,
}

/// The nodes. The masks have a bit for each.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    pub(crate) count: usize,
    /// Write everything to disk before they reply.
    pub(crate) durable: u8,
    /// Do not tell of changes to keys.
    pub(crate) quiet: u8,
    /// Drops keys when memory runs out.
    pub(crate) evicting: Option<usize>,
    /// Where the wall clocks of clients can show anything, so do those of nodes.
    pub(crate) days_apart: bool,
    /// All were started when the history begins, and so prove nothing by their uptime.
    pub(crate) young: bool,
}

/// The processes.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    /// When each of them starts.
    pub(crate) starts: Vec<u64>,
    pub(crate) tasks: usize,
    pub(crate) keys: usize,
    /// Of one lock, whose slots are the keys.
    pub(crate) permits: Option<Permits>,
    /// Clients of another library.
    pub(crate) foreign: usize,
    pub(crate) mixed_fleet: bool,
    /// The longest lease in default leases.
    pub(crate) default_share: u64,
    /// Processes have different default leases.
    pub(crate) mixed_defaults: bool,
    /// Some processes may not ask a node who it is.
    pub(crate) blind: bool,
    /// One process allows another longest lease than the others.
    pub(crate) odd: bool,
    /// Nodes that have lost their memory vote at once.
    pub(crate) assume_fresh: bool,
}

/// What callers do.
#[derive(Debug, Default)]
pub(crate) struct Habits {
    pub(crate) cancel: u64,
    /// Holders that ask for more time, at each step of theirs.
    pub(crate) extend: u64,
    /// Holders that do not let go when their lease is over.
    pub(crate) stuck: u64,
    pub(crate) hold_longest: u64,
    pub(crate) think_longest: u64,
    /// When the faults end, all callers end at once instead of going on.
    pub(crate) hasty: bool,
    /// Callers whose lock is to be kept for a while in any case.
    pub(crate) at_least: u64,
    /// Callers that share their lock with others.
    pub(crate) shared: u64,
    /// Callers that are to be served in the order of asking, whatever their process.
    pub(crate) fair: u64,
    /// All are, once all is calm.
    pub(crate) fair_at_last: bool,
    /// How many callers ask for several keys at once.
    pub(crate) sets: u64,
}

impl Plan {
    pub(crate) fn new(wanted: Wanted, seed: u64, random: &mut Random) -> Self {
        let Wanted { profile, .. } = wanted;
        let mut draws = wanted.draws.draw(seed);
        let scenario = wanted.scenario.unwrap_or_else(|| Scenario::draw(random));
        let scenario = match profile {
            Profile::Inside => scenario,
            Profile::Outside => Scenario::Random,
        };
        let count = wanted.nodes.unwrap_or_else(|| {
            let few = scenario.nodes(random);
            let mut random = Draw::ManyNodes.random(!seed);
            match draws.has(Draw::ManyNodes) {
                true => random.pick(&[6, 7, 7]),
                false => few,
            }
        });
        let scenario = scenario.with_nodes(count);
        // Short leases as often as long ones: each octave is as likely.
        let lease = ((20 * MILLI) << scenario.octave(random)) * random.between(10, 20) / 10
            + random.below(MILLI);
        let lease = draws.lease(seed, scenario, lease);
        let guard_band = scenario.guard_band(lease, random);
        let mut fleet = Fleet::draw(profile, scenario, random);
        let fits = matches!(scenario, Scenario::Random | Scenario::Witnesses);
        let is_careless = draws.keep(Draw::FreshLosses, fits && profile == Profile::Inside);
        fleet.assume_fresh |= is_careless;
        let faults = fleet.faults(profile, scenario, guard_band, is_careless, random);
        let forgets = faults.iter().any(|fault| fault.loses_memory());
        let servers = Servers::draw(count, forgets, &fleet, random);
        let skews = [lease / 16, 3 * SECOND];
        let node_timeout = random.pick(&[lease / 20, lease / 4, lease / 2, lease]);
        let mut plan = Self {
            draws,
            profile,
            scenario,
            active: (lease * random.between(3, 6)).min(SECOND),
            habits: Habits::draw(lease, random),
            servers,
            fleet,
            lease,
            guard_band,
            node_timeout: node_timeout.max(5 * MILLI),
            min_validity: random.pick(&[lease / 10, lease / 10, lease / 4, MILLI]),
            skew: random.pick(&skews),
            wall: random.pick(&[Wall::Near, Wall::Near, Wall::Stopped, Wall::Anywhere]),
            fault_pause: lease / random.pick(&[6, 2, 1]),
            faults,
            late: random.pick(&[0, 0, 20, 100]),
            late_by: lease / random.pick(&[8, 2, 1]),
            half_open_at_last: random.chance(250),
            stuck_at_last: random.chance(100),
            link_seed: !seed,
            ..Self::default()
        };
        plan.draw_rare(seed);
        if plan.draws.has(Draw::LongLeases) {
            plan.habits.hold_longest = random.pick(&[100 * MILLI, plan.lease / 4]);
            plan.habits.think_longest = plan.lease / 4;
        }
        if forgets {
            plan.last_for_quarantines(random);
        }
        plan.adapt(random);
        plan.space_starts(random);
        plan.draw_permits(seed);
        plan.draw_sets(seed);
        plan
    }

    /// Long enough for nodes that have lost their memory to vote again, with about as many locks
    /// and faults as in other histories.
    fn last_for_quarantines(&mut self, random: &mut Random) {
        let quarantine = self.max_ttl().as_nanos() as u64 + SECOND;
        self.active = self.active.max(quarantine * random.between(2, 6) / 2);
        let pause = self.active / random.pick(&[40, 15, 6]);
        self.fault_pause = self.fault_pause.max(pause);
        let habits = &mut self.habits;
        habits.think_longest = habits.think_longest.max(self.active / 40);
        let hold = self.active / random.pick(&[400, 100, 20]);
        habits.hold_longest = habits.hold_longest.max(hold);
    }

    fn space_starts(&mut self, random: &mut Random) {
        for start in self.fleet.starts.iter_mut().skip(2) {
            if random.chance(400) {
                *start = random.below(self.active * 9 / 10);
            }
        }
    }

    /// The key TTL of the longest lease.
    pub(crate) fn max_ttl(&self) -> Duration {
        key_ttl(nanos(self.lease), nanos(self.guard_band))
    }

    /// The key TTL of a default lease.
    pub(crate) fn default_ttl(&self, random: &mut Random) -> Duration {
        let share = match self.fleet.mixed_defaults {
            true => random.pick(&[1, 4, 12]),
            false => self.fleet.default_share,
        };
        key_ttl(nanos(self.lease / share), nanos(self.guard_band))
    }

    /// Nodes whose counters were driven apart by proposals that only some of them believe may not
    /// agree on a token while fewer than all of them answer.
    pub(crate) fn may_disagree(&self) -> bool {
        self.servers.days_apart && self.wall == Wall::Anywhere
    }

    /// Some node may lose its memory.
    pub(crate) fn forgets(&self) -> bool {
        self.faults.iter().any(|fault| fault.loses_memory())
    }

    /// Some process would wait for less than the longest lease at a first start.
    pub(crate) const fn has_short_defaults(&self) -> bool {
        self.fleet.mixed_defaults || self.fleet.default_share > 1
    }

    /// How long a node that has lost its memory does not vote, by the true time, if the others do
    /// not prove that less will do.
    pub(crate) const fn least_quarantine(&self) -> u64 {
        self.lease
    }

    /// Of a key, by the true time, from the arrival of the last request for it.
    pub(crate) fn longest_life(&self) -> Duration {
        nanos(self.lease + self.lease / 50 + self.guard_band + 10 * MILLI)
    }

    /// One way between a client and a node, without anything in between.
    pub(crate) fn distance(&self, random: &mut Random) -> u64 {
        let near = random.pick(&[50, 200, 200, 800]) * MICRO;
        match self.far {
            0 => near,
            far => random.pick(&[near, far / 4, far]),
        }
    }

    pub(crate) fn clock(random: &mut Random) -> Clock {
        let shown = 1_000_000 * MILLI + random.below(1_000 * MILLI);
        Clock::new(shown, Self::rate(random))
    }

    fn rate(random: &mut Random) -> i64 {
        match random.below(4) {
            0 => -4_000,
            1 => 4_000,
            2 => 0,
            _ => random.below(8_001) as i64 - 4_000,
        }
    }

    /// In one line, for the trace.
    pub(crate) fn summary(&self) -> String {
        format!(
            "{:?}: {:?}, {:?}, lease {:?}, guard band {:?}, node timeout {:?}, wall {:?}, \
             active {:?}, faults {:?}",
            self.scenario,
            self.servers,
            self.fleet,
            nanos(self.lease),
            nanos(self.guard_band),
            nanos(self.node_timeout),
            self.wall,
            nanos(self.active),
            self.faults
        )
    }
}

impl Fleet {
    fn draw(profile: Profile, scenario: Scenario, random: &mut Random) -> Self {
        let (clients, tasks) = scenario.size(random);
        let foreign = scenario == Scenario::Random && random.chance(60);
        Self {
            starts: vec![0; clients],
            tasks,
            keys: scenario.keys(random),
            permits: None,
            foreign: usize::from(foreign) * random.pick(&[1, 2, 5]),
            mixed_fleet: random.chance(if foreign { 750 } else { 30 }),
            default_share: random.pick(&[1, 4, 12]),
            mixed_defaults: random.chance(300),
            blind: random.chance(100),
            odd: scenario == Scenario::Random && random.chance(20),
            assume_fresh: profile == Profile::Inside && random.chance(20),
        }
    }

    /// The kinds of faults that this fleet is promised to survive, or some of them.
    fn faults(
        &self,
        profile: Profile,
        scenario: Scenario,
        guard_band: u64,
        is_careless: bool,
        random: &mut Random,
    ) -> Vec<Fault> {
        if scenario != Scenario::Random {
            return Vec::new();
        }
        let mut faults: Vec<Fault> = Fault::struck().collect();
        // Nobody tells clients of other libraries what a node has forgotten, nor that clocks step.
        let is_trusting = self.foreign > 0;
        let keeps_memory = random.chance(500) || is_trusting || self.assume_fresh && !is_careless;
        // A copy of old data cannot be told from the data without `INFO`.
        faults.retain(|fault| !(self.blind && fault.forgets_some()));
        faults.retain(|fault| !(keeps_memory && fault.loses_memory()));
        if profile == Profile::Inside {
            let is_trusted = |fault: Fault| !is_trusting || fault != Fault::NodeClockStep;
            faults.retain(|fault| fault.is_inside(guard_band) && is_trusted(*fault));
        }
        faults.retain(|_| random.chance(400));
        faults
    }
}

impl Servers {
    fn draw(count: usize, forgets: bool, fleet: &Fleet, random: &mut Random) -> Self {
        let mut some = |chance| {
            let drawn = if random.chance(chance) {
                random.pick(&[1, 2, 3, u64::MAX])
            } else {
                0
            };
            drawn as u8
        };
        Self {
            count,
            durable: if forgets { some(150) } else { 0 },
            quiet: some(120),
            evicting: (count >= 3 && fleet.foreign == 0 && random.chance(20))
                .then(|| random.index(count)),
            days_apart: random.chance(300),
            young: random.chance(150),
        }
    }
}

impl Habits {
    fn draw(lease: u64, random: &mut Random) -> Self {
        Self {
            cancel: random.pick(&[0, 100, 400]),
            extend: random.pick(&[0, 30, 300]),
            stuck: random.pick(&[0, 100]),
            hold_longest: lease / random.pick(&[64, 8, 2, 1]) * random.pick(&[1, 1, 3]),
            think_longest: lease / random.pick(&[64, 8, 2]),
            hasty: random.chance(500),
            at_least: random.pick(&[0, 0, 0, 100, 500]),
            shared: random.pick(&[0, 0, 200, 500, 900]),
            fair: random.pick(&[0, 0, 0, 100, 500, 1_000]),
            fair_at_last: random.chance(300),
            sets: 0,
        }
    }
}

/// What processes differ in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traits {
    pub(crate) silence_limit: u64,
    /// From never to always.
    pub(crate) busy_from: usize,
    pub(crate) default_ttl: Duration,
    pub(crate) max_ttl: Duration,
    pub(crate) is_blind: bool,
    pub(crate) assume_fresh: bool,
}

impl Traits {
    pub(crate) const fn ping_interval(&self) -> u64 {
        2 * self.silence_limit
    }

    pub(crate) fn draw(plan: &Plan, place: usize, random: &mut Random) -> Self {
        let is_odd = plan.fleet.odd && place == 1;
        let max_ttl = plan.max_ttl() * if is_odd { 2 } else { 1 };
        Self {
            // Longer than any reply takes, and no hundred pings a second of a crowd for a history of many minutes.
            silence_limit: random
                .pick(&[50 * MILLI, 200 * MILLI, SECOND])
                .max(plan.slowest_reply(place))
                .max(plan.lease / 100),
            busy_from: random.pick(&[usize::MAX, BUSY_FROM, 1, 0]),
            default_ttl: plan.default_ttl(random),
            max_ttl,
            is_blind: plan.fleet.blind && random.chance(500),
            assume_fresh: plan.fleet.assume_fresh && place % 3 == 1,
        }
    }
}

pub(crate) const fn nanos(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

const _: () = assert!(LOCKS >= 3, "scenarios draw up to three keys");
