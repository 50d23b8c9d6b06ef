//! The phases of a history: faults, rest, calm, a storm, and idleness.

use crate::{
    MILLI, SECOND,
    agenda::Happening,
    callers::{Stage, Task},
    checker::Rule,
    client::Client,
    draws::Draw,
    names::KEYS,
    network::Link,
    node::Node,
    plan::Wall,
    trace,
    world::{History, Phase, World},
};

/// Longer than anything takes to come to rest once nothing goes wrong any more, beside callers that
/// wait for five leases and hold locks for three.
const REST: u64 = 60 * SECOND;

/// Longer than a place of one that waits no more lasts, by any clock.
const PLACES_LAST: u64 = 1_100 * MILLI;

impl World {
    pub(crate) fn run(mut self) -> History {
        trace!(self, "{}", self.plan.summary());
        self.begin();
        self.run_until(self.plan.active);

        self.phase = Phase::Settling;
        self.heal();
        if self.plan.habits.hasty {
            self.end_all();
        }
        let healed = self.now;
        let time = self.time_to_vote();
        self.run_to_rest();
        self.check_leaks(None);
        // A survey waits behind all that goes over a narrow link one by one.
        let is_narrow = self.plan.draws.has(Draw::NarrowLinks);
        let healed = if is_narrow { self.now } else { healed };
        // A lock that was granted since can make a node stay out for longer.
        self.run_to_vote(healed, time.max(self.time_to_vote()));

        if !self.plan.fleet.odd {
            self.calm();
            self.storms();
        }
        self.check_sick_costs();
        self.idle();
        self.finish()
    }

    fn begin(&mut self) {
        if self.plan.draws.has(Draw::OddNode) {
            let odd = self.random.index(self.nodes.len());
            self.odd_node = Some(odd);
            for node in 0..self.nodes.len() {
                let twice = 1 + u32::from(node == odd);
                self.nodes[node].admit(twice * self.plan.max_ttl(), 0);
            }
        }
        for place in 0..self.plan.fleet.starts.len() {
            match self.plan.fleet.starts[place] {
                0 => self.join(),
                start => self.agenda.at(start, Happening::Join),
            }
        }
        self.start_foreign();
        self.schedule_strike();
        self.act(0);
    }

    fn calm(&mut self) {
        self.run_until(self.now.max(self.clocks_run()));
        if self.plan.is_fair_at_last() || self.is_release_refused() {
            // A key that only the node has that keeps the order is in the way of the order. A release that is
            // refused is tried again after a pause that grows, and the key is in the way until then.
            self.run_until(self.now + self.longest_life());
        }
        self.phase = Phase::Calm;
        self.served_since = self.now.max(self.ways_clear());
        trace!(self, "!! calm");
        let keys = self.plan.fleet.keys;
        // So far apart that it matters who came first, and so close that a queue forms.
        let callers = (self.clients.len() * self.plan.fleet.tasks) as u64;
        let within = match self.plan.is_fair_at_last() {
            true => callers * 3 * MILLI,
            false => 2 * MILLI,
        };
        self.send_errands(keys, within);
        self.run_to_rest();
        self.check_leaks(None);
        let gaps = self.traffic.iter().map(|traffic| traffic.longest);
        self.tally.longest_gap = gaps.max().unwrap_or(0);
    }

    /// Of any number that ask at once for a lock that is free, one gets it.
    fn storms(&mut self) {
        // A round for which a short lease leaves no time can fail, and so can one whose leader keeps
        // what it is told to delete.
        let is_well =
            |node: usize| self.can_vote(node) || self.gone == Some(node) && self.nodes[node].down;
        let is_well = (0..self.nodes.len()).all(is_well);
        // Who hears of nothing passes a dead process's place only after 70 ms, and a round takes two fifths of a lease.
        let shortest = if self.all_tell() { 80 } else { 200 };
        let is_short = self.plan.lease < shortest * MILLI;
        let may_fail = is_short || self.is_waiting_hard() || !is_well || self.plan.may_disagree();
        if may_fail || !self.all_know_votes() {
            return;
        }
        self.phase = Phase::Storm;
        let keys = self.plan.fleet.permits.map_or(1, |_| KEYS);
        for _ in 0..2 {
            // Nobody stands back any more, keys that nobody comes for have expired, and no reader is refused
            // for the sake of a writer that has waited before.
            let places = if self.plan.habits.shared > 0 {
                PLACES_LAST
            } else {
                0
            };
            let life = self.longest_life().max(places);
            self.run_until(self.clocks_run().max(self.now + life));
            let has_key = |node: &Node| (0..keys).any(|key| node.key(key, self.now).is_some());
            if self.nodes.iter().any(has_key) {
                // A client of another library has left it.
                return;
            }
            trace!(self, "!! a storm");
            self.tally.storms += 1;
            self.storm_winners = 0;
            let within = self.random.pick(&[0, MILLI / 20, MILLI]);
            let all_reply = !self.silence_one();
            self.send_errands(1, within);
            self.run_to_rest();
            self.check_storm(self.clients.len() * self.plan.fleet.tasks, all_reply);
        }
    }

    /// A storm may come while a node does not reply: if no client is cut off from another one, and there is
    /// time to wait for it several times. True if it does.
    fn silence_one(&mut self) -> bool {
        let nodes = self.nodes.len();
        let is_short = self.plan.lease < 320 * MILLI;
        let is_hurt = self.plan.half_open_at_last || self.gone.is_some() || !self.are_links_well();
        if nodes < 3 || is_short || is_hurt || self.random.chance(500) {
            return false;
        }
        let node = self.random.index(nodes);
        trace!(self, "!! node {node} is silent");
        self.silence(node, self.now + self.plan.lease);
        true
    }

    /// Every caller is to ask for so many keys.
    fn send_errands(&mut self, keys: usize, within: u64) {
        for client in 0..self.clients.len() {
            for task in 0..self.plan.fleet.tasks {
                self.clients[client].tasks[task].errands = keys;
                let after = self.random.below(within);
                self.schedule(client, task, after);
            }
        }
    }

    fn longest_life(&self) -> u64 {
        let life = self.plan.longest_life() + self.checker.spare;
        life.as_nanos() as u64 + self.stepped_back() + MILLI
    }

    /// Nobody wants anything, and whatever is left expires.
    fn idle(&mut self) {
        // A dead connection is given up by then, and what was owed on it is sent.
        self.run_until(self.now + 1_500 * MILLI);
        self.outage = Some(self.count());
        self.run_until(self.now + self.longest_life().max(2 * SECOND));
        self.end_idleness();
        if self.plan.draws.has(Draw::IdleDeaths) {
            self.forget_connections();
        }
        for node in 0..self.nodes.len() {
            for index in 0..KEYS {
                // A late request of another library can make its key at any time.
                if let Some(key) = self.nodes[node].key(index, self.now)
                    && key.expires.is_some()
                    && key.owner.is_some()
                {
                    let what = format!("node {node} has {key:?} for longer than any lease");
                    self.violation(Rule::Leak, what);
                }
            }
        }
    }

    /// The next caller is not to be the first who finds out.
    fn forget_connections(&mut self) {
        let longest = self.longest_silence();
        for client in 0..self.clients.len() {
            for node in 0..self.nodes.len() {
                self.half_open(client, node);
            }
        }
        // It is asked after an interval of pings, does not reply, and another connection is made. After a second
        // of silence a quarter of the limit is waited for the reply, or two round trips.
        let patience = match 2 * longest < SECOND {
            true => longest,
            false => longest / 4,
        };
        let mut links = self.clients.iter().flat_map(|client| &client.links);
        let late = match links.all(|link| link.is_voter || link.is_sick()) {
            true => longest / 50 + 100 * MILLI + 12 * self.plan.far,
            // Who does not vote is probed once in a second.
            false => 2 * longest + SECOND,
        };
        self.run_until(self.now + 2 * longest + patience + late);
        for client in 0..self.clients.len() {
            let links = self.clients[client].links.iter();
            let is_dead = |link: &&Link| !link.is_sick() && link.up && !self.is_reachable(link);
            let dead = links.filter(is_dead).count();
            if dead > 0 {
                let what = format!(
                    "client {client} has {dead} connections of which it does not know that they are dead"
                );
                self.violation(Rule::Connections, what);
            }
        }
    }

    fn finish(mut self) -> History {
        self.tally.requests = self.clients.iter().map(|client| client.costs.all()).sum();
        self.tally.scenarios[self.plan.scenario as usize] = 1;
        let draws = self.draws();
        self.tally.draws = draws.map(|(name, is_so)| (name, is_so.into())).collect();
        let summary = if self.violations.is_empty() {
            String::new()
        } else {
            self.plan.summary()
        };
        History {
            tally: self.tally,
            violations: self.violations,
            summary,
            digest: self.log.digest(),
        }
    }

    /// What may be special about it.
    fn draws(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let plan = &self.plan;
        let (servers, fleet, habits) = (&plan.servers, &plan.fleet, &plan.habits);
        let rare = Draw::ALL.map(|draw| (draw.name(), plan.draws.has(draw)));
        [
            ("two_nodes", servers.count == 2),
            ("crowd_of_processes", fleet.starts.len() > 4),
            ("crowd_of_tasks", fleet.tasks > 6),
            ("joined_later", fleet.starts.iter().any(|&start| start > 0)),
            ("short_defaults", fleet.default_share > 1),
            ("mixed_defaults", fleet.mixed_defaults),
            ("blind", fleet.blind),
            ("durable", servers.durable != 0),
            ("resp2", servers.quiet != 0),
            ("evicting", servers.evicting.is_some()),
            ("young", servers.young),
            ("collision", fleet.keys > 1 && KEYS > 1),
            ("foreign", fleet.foreign > 0),
            ("mixed_fleet", fleet.mixed_fleet),
            (
                "meaningless_clocks_and_losses",
                self.losses && plan.wall != Wall::Near,
            ),
            ("odd", fleet.odd),
            ("shared", habits.shared > 0),
            ("fair", habits.fair > 0 || habits.fair_at_last),
        ]
        .into_iter()
        .chain(rare)
    }

    // ---- running

    pub(crate) fn run_until(&mut self, end: u64) {
        while self.agenda.next().is_some_and(|next| next <= end) {
            self.step();
        }
        self.now = end;
    }

    fn run_to_rest(&mut self) {
        let patience = self.plan.calm_params(0).wait.as_nanos() as u64;
        let end = self.now + REST + patience + 8 * self.plan.lease;
        while self.under_way > 0 || !self.are_at_rest() {
            if self.now > end || !self.step() {
                let (rule, what) = self
                    .restless()
                    .unwrap_or_else(|| (Rule::Rest, format!("{} messages", self.under_way)));
                return self.violation(rule, what);
            }
        }
    }

    fn are_at_rest(&self) -> bool {
        let mut clients = self.clients.iter();
        clients.all(|client| client.is_at_rest([self.plan.servers.evicting, self.gone]))
    }

    /// Every node that can votes again in time, and all clients know.
    fn run_to_vote(&mut self, healed: u64, time: u64) {
        let is_promised = !self.plan.half_open_at_last && !self.plan.fleet.odd;
        while !self.all_know_votes() && self.now <= self.to_vote_since(healed) + time {
            if !self.step() {
                break;
            }
        }
        if is_promised && !self.all_know_votes() {
            let votes: Vec<bool> = self.nodes.iter().map(Node::votes).collect();
            let what = format!("by now all nodes should vote, and all know: {votes:?}");
            self.violation(Rule::Vote, what);
        }
    }

    /// Who keeps a history from coming to rest.
    fn restless(&self) -> Option<(Rule, String)> {
        for (client, one) in self.clients.iter().enumerate() {
            for task in &one.tasks {
                let by = match task.stage {
                    Stage::Asking { by } | Stage::Releasing { by, .. } => by,
                    _ => continue,
                };
                if one.is_past(by, self.now) {
                    let what = format!("client {client}'s {:?} is not answered", task.section);
                    return Some((Rule::Answer, what));
                }
            }
            if !one.is_at_rest([self.plan.servers.evicting, self.gone]) {
                let what = format!("client {client}: {:?}, {:?}", one.tasks, one.links);
                return Some((Rule::Rest, what));
            }
        }
        None
    }
}

impl Client {
    /// Nobody of it wants anything, and it is connected to all nodes but those to which it does not
    /// connect, or cannot.
    fn is_at_rest(&self, left_out: [Option<usize>; 2]) -> bool {
        let idle = |task: &Task| matches!(task.stage, Stage::Idle) && task.errands == 0;
        let mut links = self.links.iter().enumerate();
        !self.paused
            && self.shut_down.is_none()
            && links.all(|(node, link)| link.up || link.is_sick() || left_out.contains(&Some(node)))
            && self.tasks.iter().all(idle)
    }
}
