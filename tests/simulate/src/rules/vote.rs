//! How soon a node that has lost its memory must vote again.

use redlock_protocol::{LONGEST_ROUND, majority};

use crate::{
    MILLI, SECOND, agenda::Happening, checker::Rule, client::Client, draws::Draw, network::Link,
    node::Node, world::World,
};

/// The longest pause between two attempts to connect, and what surveys take.
const SLACK: u64 = SECOND + 200 * MILLI;

impl World {
    /// A node will be up again at `up`, and must vote in time.
    pub(crate) fn expect_vote(&mut self, node: usize, up: u64) {
        let by = up + SLACK + self.quarantine(node);
        let process = self.nodes[node].process;
        let check = Happening::CheckVote { node, process };
        self.agenda.at(by, check);
    }

    /// How long a node that has lost its memory has to stay out: as long as the longest key that so
    /// many others have granted that one of them was in each majority. What one has granted that
    /// refuses to tell, nobody knows. One whose clock has gained too much stays out for the longest lease
    /// that any client may have.
    fn quarantine(&self, node: usize) -> u64 {
        let nodes = self.nodes.len();
        let others = self.nodes.iter().enumerate();
        let others = others.filter(|&(other, one)| {
            other != node && one.votes() && ![self.gone, self.odd_node].contains(&Some(other))
        });
        let records = others.filter_map(|(_, one)| one.told_record(self.now));
        let records: Vec<_> = records.collect();
        let longest = records.iter().map(|record| record.longest).max();
        let is_ahead = self.nodes[node].stepped_forward > self.plan.guard_band;
        // One client hears one node, and another one another.
        let is_heard = !self.plan.draws.has(Draw::SickLinks);
        let wait = if is_heard && !is_ahead && records.len() > nodes - majority(nodes) {
            longest.unwrap_or_default()
        } else {
            self.plan.max_ttl()
        };
        let wait = wait.max(LONGEST_ROUND).as_nanos() as u64;
        // Clocks differ.
        wait + wait / 50
    }

    pub(crate) fn check_vote(&mut self, node: usize, process: u64) {
        let one = &self.nodes[node];
        if one.process == process && !one.votes() && !one.down && self.can_vote(node) {
            let what = format!("node {node} should vote by now: {:?}", one.record(self.now));
            self.violation(Rule::Vote, what);
        }
    }

    /// Nothing bars it for good.
    pub(crate) fn can_vote(&self, node: usize) -> bool {
        // Who assumes that nothing was forgotten lets it in for such as itself alone. And when one does that
        // connects to another node in vain is not told: it reads no records while it tries.
        let is_sound = |client: &Client| !client.links.iter().any(Link::is_sick);
        let reaches = |client: &Client| is_sound(client) && !client.traits.assume_fresh;
        let is_cut_off = !self.clients.is_empty() && !self.clients.iter().any(reaches);
        self.is_well(node) && !is_cut_off
    }

    /// Nothing is wrong with it for good.
    pub(crate) fn is_well(&self, node: usize) -> bool {
        let evicting = self.plan.servers.evicting;
        let barred = [evicting, self.poisoned, self.gone, self.odd_node];
        !barred.contains(&Some(node)) && !self.nodes[node].sickness.is_for_good()
    }

    /// How long after the last fault, or after the last loss was found, all nodes that can must vote.
    pub(crate) fn time_to_vote(&self) -> u64 {
        let quarantines = (0..self.nodes.len()).map(|node| self.quarantine(node));
        let longest = quarantines.max().unwrap_or(0);
        // A connection that is dead is missed after an interval of pings, and given up after the silence
        // limit, as the next one may be; while that is open no survey is made. A node that could not be let in
        // is probed a second later. One that refused votes must have refused none for an interval when it
        // replies to a ping, which may come as long after another reply.
        longest + SECOND + 6 * self.longest_silence() + SLACK + self.stepped_back()
    }

    pub(crate) fn longest_silence(&self) -> u64 {
        let limits = self.clients.iter().map(|one| one.traits.silence_limit);
        limits.max().unwrap_or(0)
    }

    /// When that time begins. A loss of which the node did not tell is found by the next vote that is
    /// asked for, or by the next survey, though it be the last step of another node's quarantine. A process that
    /// begins meanwhile knows nothing.
    pub(crate) fn to_vote_since(&self, healed: u64) -> u64 {
        let found = self.nodes.iter().filter_map(Node::found_late_at);
        let begun = self.clients.iter().map(|client| client.began);
        found.chain(begun).fold(healed, u64::max)
    }

    pub(crate) fn all_vote(&self) -> bool {
        // That it was flushed is found by the next vote that is asked for, if the node does not tell.
        let is_unnoticed = |one: &Node| {
            let record = one.record(self.now);
            !one.tells_changes && record.marker.is_none() && record.loss.is_none()
        };
        let mut nodes = self.nodes.iter().enumerate();
        nodes.all(|(node, one)| one.votes() || !self.can_vote(node) || is_unnoticed(one))
    }

    /// All clients know that they do.
    pub(crate) fn all_know_votes(&self) -> bool {
        let knows = |client: &Client| {
            let mut links = client.links.iter().enumerate();
            links.all(|(node, link)| link.is_voter || link.is_sick() || !self.can_vote(node))
        };
        self.all_vote() && self.clients.iter().all(knows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{log::Log, plan::Wanted, scenario::Scenario, sickness::Sickness};

    /// Nodes that have granted nothing yet.
    fn world(nodes: usize) -> World {
        let wanted = Wanted {
            nodes: Some(nodes),
            scenario: Some(Scenario::Random),
            ..Wanted::default()
        };
        let mut world = World::new(1, wanted, Log::Off);
        world.plan.lease = 8 * SECOND;
        world.now = SECOND;
        for node in 0..nodes {
            world.nodes[node].tells_changes = false;
            world.nodes[node].admit(world.plan.max_ttl(), world.now);
        }
        world
    }

    #[test]
    fn what_a_node_refuses_to_tell_makes_no_quarantine_shorter() {
        let longest = |world: &World| world.quarantine(4) > world.plan.max_ttl().as_nanos() as u64;
        let mut world = world(5);
        world.nodes[4].flush(world.now);
        assert!(!longest(&world));
        world.nodes[1].sickness = Sickness::NotPermitted;
        assert!(!longest(&world), "three of five are left");
        world.nodes[2].sickness = Sickness::ReadOnly;
        assert!(!longest(&world), "it can be read");
        world.nodes[3].poison(0, 1 << 53);
        assert!(longest(&world));
    }

    #[test]
    fn a_node_of_which_it_is_found_late_that_it_was_flushed_has_its_time_from_then() {
        let mut world = world(3);
        let healed = world.now;
        world.nodes[0].flush(healed);
        world.now += 5 * SECOND;
        assert_eq!(world.to_vote_since(healed), healed);
        world.nodes[0].note_loss(world.plan.max_ttl(), world.now);
        let found = world.now;
        assert_eq!(world.to_vote_since(healed), found);
        world.now += SECOND;
        world.nodes[0].note_loss(world.plan.max_ttl(), world.now);
        assert_eq!(world.to_vote_since(healed), found, "once is enough");
        world.nodes[0].admit(world.plan.max_ttl(), world.now);
        // Those who do not know yet that it votes have their time too.
        assert_eq!(world.to_vote_since(healed), found);
    }

    #[test]
    fn a_node_that_tells_that_it_was_flushed_has_no_more_time() {
        let mut world = world(3);
        let healed = world.now;
        world.nodes[0].tells_changes = true;
        world.nodes[0].flush(healed);
        world.now += 5 * SECOND;
        world.nodes[0].note_loss(world.plan.max_ttl(), world.now);
        assert_eq!(world.to_vote_since(healed), healed);
    }
}
