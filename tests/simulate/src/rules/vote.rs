//! How soon a node that has lost its memory must vote again.

use redlock_protocol::{LONGEST_ROUND, majority};

use crate::{MILLI, SECOND, agenda::Happening, checker::Rule, node::Node, world::World};

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
    /// many others have granted that one of them was in each majority.
    fn quarantine(&self, node: usize) -> u64 {
        let nodes = self.nodes.len();
        let others = self.nodes.iter().enumerate();
        let others = others.filter(|&(other, one)| other != node && one.votes());
        let records: Vec<_> = others.map(|(_, one)| one.record(self.now)).collect();
        let longest = records.iter().map(|record| record.longest).max();
        let wait = if records.len() > nodes - majority(nodes) {
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
        let barred = [self.plan.servers.evicting, self.poisoned];
        !barred.contains(&Some(node)) && !self.nodes[node].sickness.is_for_good()
    }

    /// When all nodes that can must vote, if the last fault was then.
    pub(crate) fn all_vote_by(&self, healed: u64) -> u64 {
        let quarantines = (0..self.nodes.len()).map(|node| self.quarantine(node));
        let longest = quarantines.max().unwrap_or(0);
        // A connection that is dead is given up after the silence limit, and while that is open no
        // survey is made. A node that refused is probed a second later.
        healed + longest + 3 * SECOND + SLACK + self.stepped_back()
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
        let knows = |client: &crate::client::Client| {
            let mut links = client.links.iter().enumerate();
            links.all(|(node, link)| link.is_voter || !self.can_vote(node))
        };
        self.all_vote() && self.clients.iter().all(knows)
    }
}
