//! No caller waits for a lock that is free.

use redlock_protocol::{NodeId, Owner, majority, stripe};

use crate::{
    MILLI,
    ailment::Ailment,
    checker::Rule,
    draws::Draw,
    names::{LOCKS, POOL},
    network::Link,
    node::Node,
    world::{Phase, World},
};

/// So long, and ten round trips, a lock may stand free while a caller waits. These and the next numbers are
/// promised in `guarantees.md`.
const SOON: u64 = 150 * MILLI;

/// The same where keys are left on nodes after each turn, or a round has no time for what it takes.
const LATE: u64 = 500 * MILLI;

/// Who has two others or more ahead is told of no change, and asks again after so long at the most.
const BEHIND: u64 = 800 * MILLI;

/// What happens to a key while all is calm. True times.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    /// Since when a majority of nodes has had no key, and can vote.
    free_since: Option<u64>,
    /// Since when some caller has been waiting.
    waiting_since: u64,
    /// When the last holder let go.
    idle_since: u64,
    /// When three processes have waited last.
    crowded: Option<u64>,
    /// When a key last vanished that was not released.
    pub(crate) vanished: u64,
    /// The longest that it was free while a caller waited.
    pub(crate) longest: u64,
    /// The node that was told last of a fair caller.
    pub(super) queue_at: Option<NodeId>,
    /// And another one was, too.
    pub(super) queues_apart: bool,
}

impl World {
    fn patience(&self) -> u64 {
        // Jitter doubles a way.
        let round_trip = 4 * self.farthest();
        let is_well =
            self.are_links_well() && (0..self.nodes.len()).all(|node| self.can_vote(node));
        // Clients of other libraries leave keys, and so does a node that cannot be asked to delete.
        let leaves_keys = !is_well || !self.foreign.is_empty();
        // Counters that lie apart take three rounds.
        let is_hurried = self.plan.node_timeout < 3 * round_trip;
        let pause = match leaves_keys || is_hurried || !self.all_tell() {
            false => SOON,
            true => LATE,
        };
        pause + 10 * round_trip
    }

    /// The longest way between a client and a node that it can reach.
    pub(crate) fn farthest(&self) -> u64 {
        let links = self.clients.iter().flat_map(|client| &client.links);
        let ways = links.map(|link| match link.ailment {
            Some(Ailment::Slow(by)) => link.distance + by / 2,
            _ => link.distance,
        });
        ways.max().unwrap_or(0)
    }

    /// Nodes tell of changes.
    pub(crate) fn all_tell(&self) -> bool {
        self.nodes.iter().all(|node| node.tells_changes)
    }

    /// Every client can reach every node.
    pub(crate) fn are_links_well(&self) -> bool {
        let mut links = self.clients.iter().flat_map(|client| &client.links);
        !links.any(Link::is_sick)
    }

    /// A caller is about to wait.
    pub(crate) fn on_waiter(&mut self, key: usize) {
        if self.checker.waiting(key) == 0 {
            self.traffic[key].waiting_since = self.now;
        }
    }

    /// A holder has let go.
    pub(crate) fn on_idle(&mut self, key: usize) {
        self.traffic[key].idle_since = self.now;
    }

    /// A caller has got the lock.
    pub(crate) fn on_holder(&mut self, client: usize, task: usize) {
        let one = &self.clients[client].tasks[task];
        let (key, owner, asked) = (one.key, one.owner, one.asked);
        let have_several = self.plan.habits.sets > 0 || self.plan.draws.has(Draw::Weights);
        if !self.checker.believers(key).is_empty() || have_several {
            // It shares it with them; or one that asks for several keys has had it, and given it back.
            return;
        }
        if !self.is_open(client, (key, owner)) {
            return;
        }
        let traffic = self.traffic[key];
        let waiting_since = match self.asked_first() {
            Some(first) => first.min(asked),
            None if self.plan.fleet.permits.is_some() => asked,
            None => traffic.waiting_since,
        };
        let expired =
            (0..self.nodes.len()).filter_map(|node| self.nodes[node].expired(key, self.now));
        let vanished = expired.fold(traffic.vanished, u64::max);
        let since = waiting_since.max(traffic.idle_since).max(vanished);
        self.check_gap(key, since, "nobody held it", self.patience());
    }

    /// A caller has got several keys. Others may have had one of them while they waited for another one, so
    /// this counts from when nobody had all that it had asked for.
    pub(crate) fn on_holder_of_all(&mut self, client: usize, task: usize) {
        let one = &self.clients[client].tasks[task];
        if one.weight > 0 {
            // The permits that it has may have been others' at any time.
            return;
        }
        let traffic = &self.traffic[..self.plan.fleet.keys];
        let ends = traffic.iter().map(|key| key.idle_since.max(key.vanished));
        let since = ends.fold(one.asked, u64::max);
        let (first, held) = (one.key, one.keys().collect::<Vec<_>>());
        let keys = traffic.len() as u64;
        if held.into_iter().all(|held| self.is_open(client, held)) {
            let attempt = self.plan.calm_params(self.stepped_back()).round_timeout();
            let longest = keys * self.patience() + attempt.as_nanos() as u64;
            self.check_gap(first, since, "nobody held any key", longest);
        }
    }

    /// A node may grant one key that cannot vote on all. Nobody who knows that could have had the lock
    /// while other nodes kept what others had left there.
    fn is_open(&self, client: usize, (key, owner): (usize, Option<Owner>)) -> bool {
        let links = &self.clients[client].links;
        let is_open = |&node: &usize| {
            let left = self.nodes[node].parts(key, self.now);
            self.can_vote(node)
                && !links[node].is_sick()
                && left.iter().all(|left| left.owner == owner)
        };
        let is_offered = self.leader_of_line().is_none_or(|leader| is_open(&leader));
        is_offered && (0..self.nodes.len()).filter(is_open).count() >= majority(self.nodes.len())
    }

    /// The node that says which permits are free. The key of a process that has died is one that is not.
    fn leader_of_line(&self) -> Option<usize> {
        self.plan.fleet.permits?;
        let nodes = self.nodes.len();
        let first = stripe(POOL) as usize % nodes;
        let mut order = (first..first + nodes).map(|node| node % nodes);
        order.find(|&node| self.can_vote(node))
    }

    /// Nodes have made or deleted keys.
    pub(crate) fn on_keys_changed(&mut self, key: usize) {
        // Where links are sick, each client needs a majority of other nodes.
        let is_lock = key < LOCKS;
        if self.phase != Phase::Calm || self.plan.draws.has(Draw::SickLinks) || !is_lock {
            return;
        }
        if self.checker.waiting(self.line_of(key)) >= 3 {
            self.traffic[key].crowded = Some(self.now);
        }
        let lacks = |&node: &usize| self.nodes[node].key(key, self.now).is_none();
        let nodes = (0..self.nodes.len()).filter(|&node| self.can_vote(node));
        let is_offered = self.leader_of_line().is_none_or(|leader| lacks(&leader));
        let free = is_offered && nodes.filter(lacks).count() >= majority(self.nodes.len());
        let traffic = &mut self.traffic[key];
        if free {
            traffic.free_since.get_or_insert(self.now);
        } else if let Some(since) = traffic.free_since.take() {
            // Some wait behind a holder of their own process, whose clock may stand still.
            let (waiting_since, idle_since) = (traffic.waiting_since, traffic.idle_since);
            let asked = self.asked_first().unwrap_or(waiting_since);
            let since = since.max(asked).max(idle_since);
            // Else a client of another library has come back to a lock that nobody wanted.
            if self.checker.waiting(self.line_of(key)) > 0 {
                self.check_gap(key, since, "nodes had no key", self.patience());
            }
        }
    }

    fn check_gap(&mut self, key: usize, since: u64, what: &str, longest: u64) {
        let is_promised = !self.plan.half_open_at_last && !self.is_waiting_hard();
        if self.phase != Phase::Calm || !is_promised || !self.is_served() {
            return;
        }
        let since = since.max(self.served_since).max(self.clocks_run());
        let gap = self.now.saturating_sub(since);
        let traffic = &mut self.traffic[key];
        traffic.longest = gap.max(traffic.longest);
        let is_behind = traffic.crowded.is_some_and(|at| at + BEHIND > since);
        let longest = if is_behind {
            longest.max(BEHIND)
        } else {
            longest
        };
        if gap > longest {
            let gap = gap as f64 / 1e6;
            let what = format!("key {key} was waited for, and {what} for {gap} ms");
            self.violation(Rule::Liveness, what);
        }
    }

    /// Attempts in vain of one process are in the way of another one: because what is left on a node keeps out
    /// only those that have a sound link to it, or because attempts take as long as the pauses between them.
    pub(crate) fn is_waiting_hard(&self) -> bool {
        self.plan.far > 0 || !self.are_links_well()
    }

    /// From when on no client's clock stands still, which would tell its engine nothing.
    pub(crate) fn clocks_run(&self) -> u64 {
        let clocks = self.clients.iter().map(|client| client.clock.runs_from(0));
        clocks.max().unwrap_or(0)
    }

    /// All nodes vote that should.
    fn is_served(&self) -> bool {
        !self.plan.fleet.odd && !self.plan.may_disagree() && self.all_know_votes()
    }

    /// Several have asked at once for a lock that was free, and would not wait.
    pub(crate) fn check_storm(&mut self, asked: usize, all_reply: bool) {
        let winners = self.storm_winners;
        let is_right = match self.plan.fleet.permits {
            None => winners == 1 || winners > 1 && self.plan.habits.shared > 0,
            // Who asks for one after the other may find one that a winner has let go.
            Some(permits) if all_reply => winners >= asked.min(permits.count as usize),
            // Where each slot needs all nodes that reply, those who meet at one may all be refused.
            Some(_) => winners >= 1,
        };
        if !is_right && asked > 0 {
            let what = format!("of {asked} callers that asked at once {winners} got the lock");
            self.violation(Rule::Liveness, what);
        }
    }
}

impl Node {
    /// When the last part of a key expired, if some has of which the node has told nobody.
    fn expired(&self, index: usize, at: u64) -> Option<u64> {
        let now = self.moment(at).now;
        let parts = self.parts(index, at).into_iter();
        let expired = parts.filter_map(|part| part.expires.filter(|&expires| expires <= now));
        let since = |expires| at.saturating_sub(now.since(expires).as_nanos() as u64);
        expired.map(since).max()
    }
}
