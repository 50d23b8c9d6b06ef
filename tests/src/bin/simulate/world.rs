//! One history: clients, nodes and what is between them, in virtual time.

use crate::{
    MILLI, SECOND,
    agenda::{Agenda, Happening},
    checker::{Checker, Invariant, Violation},
    client::Client,
    log::Log,
    network::{Connection, Link},
    node::Node,
    plan::{Plan, Profile},
    random::Random,
    tally::Tally,
    trace,
};

/// Longer than anything takes to come to rest once nothing goes wrong any more.
const REST: u64 = 60 * SECOND;

pub(crate) struct World {
    /// True time, in nanoseconds, as everywhere where nothing else is said.
    pub(crate) now: u64,
    pub(crate) plan: Plan,
    pub(crate) random: Random,
    pub(crate) phase: Phase,
    pub(crate) nodes: Vec<Node>,
    pub(crate) clients: Vec<Client>,
    /// All that were ever made.
    pub(crate) connections: Vec<Connection>,
    pub(crate) agenda: Agenda,
    /// Messages that have not arrived yet.
    pub(crate) under_way: usize,
    pub(crate) checker: Checker,
    pub(crate) tally: Tally,
    pub(crate) violations: Vec<Violation>,
    pub(crate) log: Log,
}

/// What a history is about at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Faults, and callers that ask again and again.
    Faulty,
    /// No new faults and no new callers, until everything has come to rest.
    Settling,
    /// Every caller asks once more for every key, and must get it.
    Calm,
}

/// What a history came to.
pub(crate) struct History {
    pub(crate) tally: Tally,
    pub(crate) violations: Vec<Violation>,
    pub(crate) digest: u64,
}

impl World {
    pub(crate) fn new(seed: u64, profile: Profile, nodes: Option<usize>, log: Log) -> Self {
        let mut random = Random::new(seed);
        let plan = Plan::new(profile, nodes, &mut random);
        let new_node = |_| {
            let clock = Plan::clock(&mut random);
            Node::new(clock, random.chance(500))
        };
        Self {
            now: 0,
            nodes: (0..plan.nodes).map(new_node).collect(),
            plan,
            random,
            phase: Phase::Faulty,
            clients: Vec::new(),
            connections: Vec::new(),
            agenda: Agenda::default(),
            under_way: 0,
            checker: Checker::default(),
            tally: Tally::default(),
            violations: Vec::new(),
            log,
        }
    }

    pub(crate) fn run(mut self) -> History {
        trace!(self, "{}", self.plan.summary());
        for client in 0..self.plan.clients {
            let clock = Plan::clock(&mut self.random);
            let new = self.new_client(0, clock);
            self.clients.push(new);
            self.start(client);
        }
        self.schedule_strike();
        self.run_until(self.plan.active);

        self.phase = Phase::Settling;
        self.heal();
        if self.plan.hasty {
            self.end_all();
        }
        self.run_to_rest();
        self.check_leaks(None);

        self.phase = Phase::Calm;
        trace!(self, "!! calm");
        self.send_errands();
        self.run_to_rest();
        self.check_leaks(None);
        self.check_that_everything_expires();
        History {
            tally: self.tally,
            violations: self.violations,
            digest: self.log.digest(),
        }
    }

    pub(crate) fn violation(&mut self, invariant: Invariant, what: String) {
        trace!(self, "?? {invariant:?}: {what}");
        self.violations.push(Violation {
            invariant,
            at: self.now,
            what,
        });
    }

    fn run_until(&mut self, end: u64) {
        while self.agenda.next().is_some_and(|next| next <= end) {
            self.step();
        }
        self.now = end;
    }

    fn run_to_rest(&mut self) {
        let end = self.now + REST;
        while self.under_way > 0 || !self.clients.iter().all(Client::is_at_rest) {
            if self.now > end || !self.step() {
                let (invariant, what) = self
                    .restless()
                    .unwrap_or_else(|| (Invariant::Rest, format!("{} messages", self.under_way)));
                return self.violation(invariant, what);
            }
        }
    }

    fn step(&mut self) -> bool {
        let Some((at, happening)) = self.agenda.pop() else {
            return false;
        };
        self.now = at;
        match happening {
            Happening::AtNode(arrival) => self.at_node(arrival),
            Happening::AtClient(arrival) => self.at_client(arrival),
            Happening::Wake { client } => self.wake(client),
            Happening::Turn { client, task, turn } => self.turn(client, task, turn),
            Happening::Strike => self.strike(),
            Happening::Resume { client } => self.resume(client),
            Happening::Speak { node } => self.speak(node),
            Happening::Up { node } => self.up(node),
        }
        true
    }

    /// Everything has come to rest, for all clients or for one: what is left on nodes that it is
    /// connected to?
    pub(crate) fn check_leaks(&mut self, client: Option<usize>) {
        for node in 0..self.nodes.len() {
            for index in 0..self.plan.keys {
                let Some(key) = self.nodes[node].key(index, self.now) else {
                    continue;
                };
                let Some(attempted) = self.checker.attempted(key.owner) else {
                    continue;
                };
                let owner = &self.clients[attempted.client];
                let link = &owner.links[node];
                // Nobody comes for these: the process is gone, the release came before the
                // request on another connection, was answered with an error, or was owed until
                // the key should have expired, and the node was not there before or the client
                // is not there any more.
                let excused = attempted.incarnation != owner.incarnation
                    || key.orphan
                    || attempted.is_refused_by(node)
                    || link.up_since >= attempted.expires
                    || client.is_some() && owner.clock.read(self.now) >= attempted.expires;
                let asked_for = client.is_none_or(|client| client == attempted.client);
                if asked_for && self.is_reachable(link) && !excused {
                    let what = format!("node {node} still has {key:?}");
                    self.violation(Invariant::Leak, what);
                }
            }
        }
    }

    fn is_reachable(&self, link: &Link) -> bool {
        let connection = link.current.filter(|_| link.up);
        connection.is_some_and(|connection| !self.connections[connection].is_half_open())
    }

    /// How much longer a key can live because of clocks that went back.
    pub(crate) fn stepped_back(&self) -> u64 {
        let stepped = self.nodes.iter().map(|node| node.stepped_back);
        stepped.max().unwrap_or(0)
    }

    fn check_that_everything_expires(&mut self) {
        let life = self.plan.longest_life().as_nanos() as u64 + self.stepped_back();
        self.run_until(self.now + life + MILLI);
        for node in 0..self.nodes.len() {
            for index in 0..self.plan.keys {
                if let Some(key) = self.nodes[node].key(index, self.now) {
                    let what = format!("node {node} has {key:?} for longer than any lease");
                    self.violation(Invariant::Leak, what);
                }
            }
        }
    }
}
