//! What locks, waiting and idleness cost in messages.

use redlock_protocol::{Act, Order, Request, majority};

use crate::{
    MILLI, SECOND,
    callers::{Stage, Task},
    checker::{Rule, is_acquire},
    draws::Draw,
    names::index_of,
    network::Link,
    plan::Profile,
    trace,
    world::World,
};

/// So many rounds ask nodes for the numbers of one lock, and one more for each other one that has got its
/// numbers meanwhile.
const MOST_ROUNDS: u32 = 8;

/// What one process has sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Costs {
    pub(crate) connections: u64,
    /// About locks.
    pub(crate) about_keys: u64,
    /// About nodes.
    pub(crate) about_nodes: u64,
    /// To each node, while a majority of others could be asked.
    pub(crate) to: [u64; 8],
}

/// What a process has sent, and which one of its place it is.
type Sent = (u32, Costs);

/// What had been sent when a majority of nodes had been down for a while, or one became sick for good.
#[derive(Clone, Debug)]
pub(crate) struct Outage {
    since: u64,
    /// For each client.
    sent: Vec<Sent>,
}

impl Costs {
    pub(crate) const fn on_send(&mut self, order: &Order, has_choice: bool) {
        match order.body {
            Request::Identify
            | Request::Probe
            | Request::ReportLoss { .. }
            | Request::Admit { .. } => self.about_nodes += 1,
            _ => self.about_keys += 1,
        }
        // A waiter reads the key whenever the node tells of a change, as at each renewal.
        if has_choice && !matches!(order.body, Request::Watch { .. }) {
            self.to[order.node.0] += 1;
        }
    }

    pub(crate) const fn all(&self) -> u64 {
        self.about_keys + self.about_nodes
    }
}

impl World {
    /// A majority of nodes that are well vote for this client: it needs none that is not.
    pub(crate) fn has_choice(&self, client: usize) -> bool {
        let links = self.clients[client].links.iter().enumerate();
        let is_well = |(node, link): &(usize, &Link)| {
            link.is_voter && !link.is_sick() && self.can_vote(*node)
        };
        let well = links.filter(is_well);
        well.count() >= majority(self.nodes.len())
    }

    pub(crate) fn count(&self) -> Outage {
        let clients = self.clients.iter();
        let sent = clients.map(|client| (client.incarnation, client.costs));
        Outage {
            since: self.now,
            sent: sent.collect(),
        }
    }

    pub(crate) fn begin_outage(&mut self) {
        trace!(self, "!! the outage is counted");
        self.outage = Some(self.count());
    }

    /// While no majority can vote nothing is sent about locks.
    pub(crate) fn end_outage(&mut self) {
        let Some(outage) = self.outage.take() else {
            return;
        };
        let took = self.now - outage.since;
        // One question for each second, and the releases that a node owes.
        let bound = 4 + 2 * took / SECOND;
        for (client, (_, before)) in outage.sent.iter().enumerate() {
            let sent = self.clients[client].costs.about_keys - before.about_keys;
            if sent > bound {
                let seconds = took as f64 / 1e9;
                let what = format!(
                    "client {client} has sent {sent} requests about locks in {seconds} s without a \
                     majority"
                );
                self.violation(Rule::Cost, what);
            }
        }
    }

    /// Nobody wanted anything.
    pub(crate) fn end_idleness(&mut self) {
        let Some(idle) = self.outage.take() else {
            return;
        };
        let took = self.now - idle.since;
        let nodes = self.nodes.len() as u64;
        for (client, (_, before)) in idle.sent.iter().enumerate() {
            let links = self.clients[client].links.iter().enumerate();
            let is_let_in = |(node, link): &(usize, &Link)| {
                self.can_vote(*node) && !link.is_sick() && !self.plan.fleet.odd
            };
            // A node that cannot be let in is probed once in a second, and its survey asks all.
            let sick = links.filter(|link| !is_let_in(link)).count() as u64;
            let bound = nodes + (2 + sick * nodes * 4) * (1 + took / SECOND);
            let sent = self.clients[client].costs.all() - before.all();
            let pings = nodes * (1 + took / self.clients[client].traits.ping_interval());
            if sent > bound + pings {
                let seconds = took as f64 / 1e9;
                let what =
                    format!("client {client} has sent {sent} requests in {seconds} idle seconds");
                self.violation(Rule::Cost, what);
            }
        }
    }

    /// No vote is asked of a node that is so far behind that the vote cannot come in time. One that does not
    /// reply at all is given up.
    pub(crate) fn check_queue(&mut self, client: usize, connection: usize, order: &Order) {
        let one = &self.clients[client];
        let is_vote = is_acquire(&order.body);
        // A clock that steps does not tell for how long a reply has been owed.
        if !is_vote || self.plan.profile == Profile::Outside {
            return;
        }
        let way = &self.connections[connection];
        let Some(oldest) = way.owed.front() else {
            return;
        };
        let round = self.plan.node_timeout.max(self.plan.lease / 2);
        let silence = 2 * one.traits.silence_limit;
        let age = self.now - oldest;
        if age > round + silence + one.delayed {
            let owed = way.owed.len();
            let what = format!(
                "client {client} asks node {} for a vote, which owes {owed} replies, the first for {} ms",
                order.node.0,
                age / MILLI
            );
            self.violation(Rule::Cost, what);
        }
    }

    /// A lock that nobody has begins when a majority of nodes agree on its numbers.
    pub(crate) fn check_rounds(&mut self, client: usize, order: &Order) {
        let Request::Vote(vote, Act::Extend { .. }) = &order.body else {
            return;
        };
        if vote.block.is_none() {
            return;
        }
        let (key, owner) = (&vote.key, vote.owner);
        let has_key = |node: usize| {
            let one = &self.nodes[node];
            one.part(index_of(key), Some(owner), self.now).is_some()
        };
        let links = || self.clients[client].links.iter().enumerate();
        let near = links().filter(|(node, link)| !link.is_sick() && has_key(*node));
        let needs_sick =
            links().any(|(_, link)| link.is_sick()) && near.count() < majority(self.nodes.len());
        let one = &mut self.clients[client];
        let holds =
            |task: &Task| task.owner == Some(owner) && matches!(task.stage, Stage::Holding { .. });
        let is_far = self.poisoned.is_some() && self.plan.draws.has(Draw::FarCounters);
        // One key of several is kept while the others are asked for. Where another node is down, none agrees
        // with one whose counter is too far ahead to be followed. Where a majority with the key includes a sick
        // link, others overtake what is proposed on its way.
        let have_several = self.plan.habits.sets > 0 || self.plan.draws.has(Draw::Weights);
        if is_far || needs_sick || have_several || one.tasks.iter().any(holds) {
            return;
        }
        // The guarantees promise it for round trips of up to 3 ms: with longer ones, each attempt of others may
        // overtake what is proposed on its way.
        if self.plan.far > 0 {
            return;
        }
        let numbered = self.numbered;
        let rounds = one.rounds.entry((owner, order.node));
        let (rounds, before) = rounds.or_insert((0, numbered));
        *rounds += 1;
        let others = numbered - *before;
        if *rounds > MOST_ROUNDS + others {
            let what = format!(
                "client {client} has asked for numbers {rounds} times, while {others} others got theirs"
            );
            self.violation(Rule::Cost, what);
        }
    }

    /// The lock has numbers.
    pub(crate) fn on_numbers(&mut self, client: usize, task: usize) {
        self.numbered += 1;
        let one = &mut self.clients[client];
        let owner = one.tasks[task].owner;
        one.rounds.retain(|(other, _), _| Some(*other) != owner);
    }

    /// A node that replies with errors for good is not asked more than others are, from then on.
    pub(crate) fn check_sick_costs(&mut self) {
        for node in 0..self.nodes.len() {
            let Some(Outage { since, sent }) = self.sick[node].take() else {
                continue;
            };
            for client in 0..self.clients.len() {
                let one = &self.clients[client];
                // Another process counts from zero.
                let before = sent
                    .get(client)
                    .filter(|before| before.0 == one.incarnation);
                let before = before.map_or_else(Costs::default, |before| before.1);
                let asked = |node: usize| one.costs.to[node] - before.to[node];
                let well = (0..self.nodes.len())
                    .filter(|&other| !self.nodes[other].sickness.is_for_good());
                let most = well.map(asked).max().unwrap_or(0);
                let seconds = (self.now - since) / SECOND + 1;
                // Fair callers ask no other for a second: for each of their keys up to 31 times. Where no node tells of
                // changes, others do so, too, and only read the key elsewhere.
                let fair = 31 * self.plan.fleet.keys as u64;
                let is_alone = self.plan.habits.fair > 0 || !self.all_tell();
                let first = if is_alone { fair } else { 10 };
                // One that is the first to be asked for a key is asked more often than others.
                // All slots of a lock have the same first one.
                let slots = self.plan.fleet.permits.map_or(1, |permits| permits.count);
                if asked(node) > 4 * most + u64::from(slots) * (20 + first * seconds) {
                    let what = format!(
                        "client {client} has asked node {node}, which is {:?}, {} times, and \
                         others {most} times",
                        self.nodes[node].sickness,
                        asked(node)
                    );
                    self.violation(Rule::Cost, what);
                }
            }
        }
    }
}
