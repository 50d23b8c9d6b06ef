//! When a holder must know that its lock is lost, and when it must not say so.

use redlock_protocol::{Loss, Mode, Owner, SectionId, majority};

use crate::{
    MILLI,
    agenda::Happening,
    callers::{Stage, task_of},
    checker::Rule,
    foreign,
    plan::Profile,
    scenario::Scenario,
    world::World,
};

/// A holder reads its keys so long after it has got them, and only then is told of changes.
const UNWATCHED: u64 = 20 * MILLI;

/// A reader reads its keys so long after it has been told of a change; one of several keys may be shared.
const READERS_LATER: u64 = 200 * MILLI;

/// How late an engine wakes.
const LATE: u64 = 2 * MILLI;

impl World {
    /// A key has vanished from a node. Who holds it rests on fewer nodes now.
    pub(crate) fn on_key_lost(&mut self, index: usize) {
        self.traffic[index].vanished = self.now;
        for place in 0..self.checker.believers(index).len() {
            let belief = self.checker.believers(index)[place];
            if belief.client >= foreign::FIRST {
                continue;
            }
            // Of a key that has expired nobody can know before its node drops it.
            let carriers = self.told_carriers(belief.client, belief.section);
            if carriers < majority(self.nodes.len()) {
                let round_trip = self.round_trip(belief.client);
                let since = self.now.max(belief.since + UNWATCHED + LATE + round_trip);
                let check = Happening::CheckLoss {
                    client: belief.client,
                    section: belief.section,
                    since: self.now,
                };
                let task = &self.clients[belief.client].tasks[task_of(belief.section)];
                let may_share = belief.mode == Mode::Shared || task.keys().count() > 1;
                let later = if may_share { READERS_LATER } else { 0 };
                self.agenda.at(since + later + 2 * round_trip + LATE, check);
            }
        }
    }

    /// The longest that a message and its reply take to any node.
    pub(crate) fn round_trip(&self, client: usize) -> u64 {
        let links = self.clients[client].links.iter();
        4 * links.map(|link| link.distance).max().unwrap_or(0)
    }

    /// How many nodes have the key of a section: of several, that which the fewest have.
    pub(crate) fn carriers(&self, client: usize, section: SectionId) -> usize {
        let task = &self.clients[client].tasks[task_of(section)];
        let carriers = task.keys().map(|held| self.carriers_of(held));
        carriers.min().unwrap_or(self.nodes.len())
    }

    fn carriers_of(&self, (key, owner): (usize, Option<Owner>)) -> usize {
        let nodes = self.nodes.iter();
        let carriers = nodes.filter(|node| node.part(key, owner, self.now).is_some());
        carriers.count()
    }

    /// The same, with nodes that have not dropped a key that has expired.
    fn told_carriers(&self, client: usize, section: SectionId) -> usize {
        let task = &self.clients[client].tasks[task_of(section)];
        let carriers = |held| self.carriers_of(held).max(self.untold(held));
        let carriers = task.keys().map(carriers).min();
        carriers.unwrap_or(self.nodes.len())
    }

    /// How many nodes have not dropped a key, whether it has expired or not.
    fn untold(&self, (key, owner): (usize, Option<Owner>)) -> usize {
        let owner = owner.and_then(|owner| self.checker.attempted(owner));
        let Some(attempted) = owner else {
            return 0;
        };
        let made = |node: &&crate::node::Node| {
            let mut made = node.made(key).iter();
            made.any(|made| made.tag == attempted.tag)
        };
        self.nodes.iter().filter(made).count()
    }

    /// Nothing has been wrong between a client and any node since then.
    fn is_undisturbed(&self, client: usize, since: u64) -> bool {
        let one = &self.clients[client];
        let sound = |(link, node): (&crate::network::Link, &crate::node::Node)| {
            self.is_reachable(link) && link.troubled < since && node.troubled < since
        };
        !one.paused && one.links.iter().zip(&self.nodes).all(sound)
    }

    pub(crate) fn check_loss(&mut self, client: usize, section: SectionId, since: u64) {
        let one = &self.clients[client];
        let task = &one.tasks[task_of(section)];
        let Stage::Holding { deadline, .. } = task.stage else {
            return;
        };
        // A holder whose clock has stood still had no time yet to read its keys.
        let watches = one.clock.runs_from(0).max(task.began) + UNWATCHED + LATE;
        let by = watches + 3 * self.round_trip(client) + LATE;
        if self.now < by && task.section == section {
            let check = Happening::CheckLoss {
                client,
                section,
                since,
            };
            return self.agenda.at(by, check);
        }
        // There may have been a majority in between; for what has vanished since, there is a check.
        let has_vanished = |(key, _): (usize, _)| self.traffic[key].vanished > since;
        let has_changed = task.keys().any(has_vanished);
        let is_over = one.clock.read(self.now) >= deadline.as_nanos();
        let tells = self.all_tell();
        if task.section != section || has_changed || is_over || !tells {
            return;
        }
        let before = since.saturating_sub(10 * self.round_trip(client) + 10 * MILLI);
        // Of a key that has expired a node tells when it drops it.
        let carriers = self.told_carriers(client, section);
        if carriers < majority(self.nodes.len()) && self.is_undisturbed(client, before) {
            let since = since as f64 / 1e6;
            let what = format!(
                "client {client}'s {section:?} has had its key on {carriers} nodes since {since} ms, \
                 and goes on"
            );
            self.violation(Rule::Loss, what);
        }
    }

    /// A lease has ended under its holder: was there a reason?
    pub(crate) fn check_endurance(&mut self, client: usize, task: usize, loss: &Loss) {
        let one = &self.clients[client].tasks[task];
        let section = one.section;
        let since = one.began;
        let settled = since + UNWATCHED + LATE + 2 * self.round_trip(client);
        // On a busy set a lock rests on a bare majority until its holder has read the keys, and stands
        // no loss of memory.
        let is_bare = matches!(loss, Loss::Lost { .. })
            && self.now <= settled
            && self.nodes.iter().any(|node| node.lost_at >= since);
        let leads = self.plan.is_leader(client, task)
            && !matches!(self.plan.scenario, Scenario::Losses | Scenario::Witnesses)
            && self.now < self.plan.active;
        if leads && !is_bare {
            let what = format!("client {client}'s {section:?} should have been renewed: {loss:?}");
            return self.violation(Rule::Endurance, what);
        }
        // Of several permits nobody knows which one was lost.
        if !matches!(loss, Loss::Lost { .. }) || one.weight > 0 {
            return;
        }
        let kept = |node: &crate::node::Node, (key, owner): (usize, Option<Owner>)| {
            let part = node.part(key, owner, self.now);
            // The holder counts what was put back once it has heard that it was extended.
            let made = node.made(key).get(owner);
            let counts_since = made.and_then(|made| made.counts_since);
            let counts = counts_since.is_some_and(|at| at + self.round_trip(client) <= self.now);
            counts && node.lost_at < since && part.is_some()
        };
        let keeping = |held| self.nodes.iter().filter(|node| kept(node, held)).count();
        let carriers = one.keys().map(keeping).min().unwrap_or(0);
        if self.plan.profile == Profile::Inside
            && self.now > settled
            && carriers >= majority(self.nodes.len())
            && self.is_undisturbed(client, since)
        {
            let what = format!(
                "client {client}'s {section:?} is called lost, with its key on {carriers} nodes"
            );
            self.violation(Rule::Endurance, what);
        }
    }
}
