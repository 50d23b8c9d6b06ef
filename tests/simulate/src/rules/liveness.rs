//! No caller waits for a lock that is free.

use redlock_protocol::{NodeId, Owner, Ticket, majority};

use crate::{
    MILLI,
    checker::Rule,
    node::Node,
    world::{Phase, World},
};

/// The longest pause between two attempts, or for how long a process stands back for another; twice,
/// because the first attempt may meet a key that nobody comes for, and engines wake late.
const LONGEST_PAUSE: u64 = 2 * 66 * MILLI;

/// So long many callers of several keys may hold one of them in vain, one after the other: each for 16 ms at first.
const MANY_IN_VAIN: u64 = 1_024 * MILLI;

/// What happens to a key while all is calm. True times.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    /// Since when a majority of nodes has had no key, and can vote.
    free_since: Option<u64>,
    /// Since when some caller has been waiting.
    waiting_since: u64,
    /// When the last holder let go.
    idle_since: u64,
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
        let links = self.clients.iter().flat_map(|client| &client.links);
        let farthest = links.map(|link| link.distance).max().unwrap_or(0);
        let is_well = (0..self.nodes.len()).all(|node| self.can_vote(node));
        // Twice more where keys are left on nodes after each turn, by clients of other libraries or because a
        // node cannot be asked to delete: attempts may meet on the other nodes again. Once more where counters
        // that lie apart, which take three rounds, take several attempts because the rounds do not fit into the
        // node timeout.
        let leaves_keys = !is_well || !self.foreign.is_empty();
        let is_hurried = self.plan.node_timeout < 3 * 4 * farthest;
        let pause = LONGEST_PAUSE * (1 + 2 * u64::from(leaves_keys) + u64::from(is_hurried));
        // What only the node has that keeps the order is in the way for longer.
        let lasts = Ticket::LASTS.as_nanos() as u64;
        let of_order = match self.plan.is_fair_at_last() && (leaves_keys || is_hurried) {
            true => 2 * lasts,
            false => 0,
        };
        pause + of_order + 40 * farthest
    }

    /// A caller is about to wait.
    pub(crate) fn on_waiter(&mut self, key: usize) {
        if !self.checker.is_waited_for(key) {
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
        if !self.checker.believers(key).is_empty() || self.plan.habits.sets > 0 {
            // It shares it with them; or one that asks for several keys has had it, and given it back.
            return;
        }
        if !self.is_open((key, owner)) {
            return;
        }
        let Traffic {
            waiting_since,
            idle_since,
            vanished,
            ..
        } = self.traffic[key];
        let waiting_since = match self.asked_first() {
            Some(first) => first.min(asked),
            None if self.plan.fleet.permits.is_some() => asked,
            None => waiting_since,
        };
        let expired =
            (0..self.nodes.len()).filter_map(|node| self.nodes[node].expired(key, self.now));
        let vanished = expired.fold(vanished, u64::max);
        let since = waiting_since.max(idle_since).max(vanished);
        self.check_gap(key, since, "nobody held it", self.patience());
    }

    /// A caller has got several keys. How often others have had one of them and given it back does not
    /// matter: for so long nobody held any. Another caller may have held one of them in vain for a quarter of the
    /// longest lease for each of two others, or many of them, while they waited for one that could not be had, and for a node timeout, if what was left of that
    /// one looked like an attempt.
    pub(crate) fn on_holder_of_all(&mut self, client: usize, task: usize) {
        let one = &self.clients[client].tasks[task];
        let (first, mut since) = (one.key, one.asked);
        let held: Vec<_> = one.keys().collect();
        for &(key, _) in &held {
            let Traffic {
                idle_since,
                vanished,
                ..
            } = self.traffic[key];
            since = since.max(idle_since).max(vanished);
        }
        if held.into_iter().all(|held| self.is_open(held)) {
            let attempt = self.plan.calm_params(self.stepped_back()).round_timeout();
            let longest =
                self.patience() + MANY_IN_VAIN.max(self.plan.lease / 2) + attempt.as_nanos() as u64;
            self.check_gap(first, since, "nobody held any of its keys", longest);
        }
    }

    /// A node may grant one key that cannot vote on all. Nobody who knows that could have had the lock
    /// while other nodes kept what others had left there.
    fn is_open(&self, (key, owner): (usize, Option<Owner>)) -> bool {
        let is_open = |&node: &usize| {
            let left = self.nodes[node].parts(key, self.now);
            self.can_vote(node) && left.iter().all(|left| left.owner == owner)
        };
        (0..self.nodes.len()).filter(is_open).count() >= majority(self.nodes.len())
    }

    /// Nodes have made or deleted keys.
    pub(crate) fn on_keys_changed(&mut self, key: usize) {
        if self.phase != Phase::Calm {
            return;
        }
        let lacks = |&node: &usize| self.nodes[node].key(key, self.now).is_none();
        let nodes = (0..self.nodes.len()).filter(|&node| self.can_vote(node));
        let free = nodes.filter(lacks).count() >= majority(self.nodes.len());
        let traffic = &mut self.traffic[key];
        if free {
            traffic.free_since.get_or_insert(self.now);
        } else if let Some(since) = traffic.free_since.take() {
            // Some wait behind a holder of their own process, whose clock may stand still.
            let (waiting_since, idle_since) = (traffic.waiting_since, traffic.idle_since);
            let asked = self.asked_first().unwrap_or(waiting_since);
            let since = since.max(asked).max(idle_since);
            // Else a client of another library has come back to a lock that nobody wanted.
            if self.checker.is_waited_for(self.line_of(key)) {
                self.check_gap(key, since, "nodes had no key", self.patience());
            }
        }
    }

    fn check_gap(&mut self, key: usize, since: u64, what: &str, longest: u64) {
        if self.phase != Phase::Calm || self.plan.half_open_at_last || !self.is_served() {
            return;
        }
        let since = since.max(self.served_since).max(self.clocks_run());
        let gap = self.now.saturating_sub(since);
        let most = &mut self.traffic[key].longest;
        *most = gap.max(*most);
        if gap > longest {
            let what = format!(
                "key {key} was waited for, and {what} for {} ms",
                gap as f64 / 1e6
            );
            self.violation(Rule::Liveness, what);
        }
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
    pub(crate) fn check_storm(&mut self, asked: usize) {
        let winners = self.storm_winners;
        let is_right = match self.plan.fleet.permits {
            None => winners == 1 || winners > 1 && self.plan.habits.shared > 0,
            // Who asks for one after the other may find one that a winner has let go.
            Some(permits) => winners >= asked.min(permits.count as usize),
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
