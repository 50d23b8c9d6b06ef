//! One history: clients, nodes and what is between them, in virtual time.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::{
    MICRO, MILLI, SECOND,
    agenda::{Agenda, Happening},
    checker::{Checker, Grant, Invariant, Violation},
    client::Client,
    log::Log,
    network::{Connection, Link},
    node::Node,
    plan::{Plan, Profile},
    protocol::Token,
    random::Random,
    store::{Holder, Wrong},
    tally::Tally,
    trace,
};

/// Longer than anything takes to come to rest once nothing goes wrong any more.
const REST: u64 = 60 * SECOND;

pub(crate) struct World {
    /// True time, in nanoseconds, as everywhere where nothing else is said.
    pub(crate) now: u64,
    /// The same in microseconds, for the wall clocks of clients.
    pub(crate) wall: Arc<AtomicU64>,
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
    /// A node has lost its memory.
    pub(crate) losses: bool,
    /// A node that had has voted again, without the counters of so many others as it takes.
    pub(crate) short_reseeds: bool,
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
        let plan_nodes = plan.nodes;
        let new_node = |_| {
            let clock = Plan::clock(&mut random);
            Node::new(clock, random.chance(500))
        };
        Self {
            now: 0,
            nodes: (0..plan.nodes).map(new_node).collect(),
            wall: Arc::default(),
            plan,
            random,
            phase: Phase::Faulty,
            clients: Vec::new(),
            connections: Vec::new(),
            agenda: Agenda::default(),
            under_way: 0,
            checker: Checker::new(plan_nodes),
            tally: Tally::default(),
            violations: Vec::new(),
            losses: false,
            short_reseeds: false,
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

    // ---- tokens

    pub(crate) fn on_token(&mut self, client: usize, key: usize, token: Token, asked: u64) {
        let owner = self.checker.latest_owner(client, key);
        let attempted = owner.and_then(|owner| self.checker.attempted(owner));
        let grant = Grant {
            client,
            token,
            at: self.now,
            took: attempted.map_or(0, |attempted| self.now - attempted.began),
        };
        let mut excused = true;
        let wrong = self.checker.on_token(key, grant, asked);
        for other in &wrong {
            excused &= self.promises_no_order(grant.took, other.took);
        }
        if wrong.is_empty() {
            return;
        }
        if excused {
            self.excuse();
        } else {
            let what =
                format!("client {client} gets {grant:?} for key {key}, and {wrong:?} before");
            self.violation(Invariant::Token, what);
        }
    }

    /// True if memory was lost such that nothing is promised about the tokens of two acquisitions
    /// that took so long.
    ///
    /// Nothing is needed where nodes that lost their memory have got counters of so many nodes
    /// that remember theirs that one of them is in every quorum of before, after all that had
    /// counted a grant of before have come to an end. Where they have not, clients' wall clocks
    /// must not be further apart than what a quarantine leaves, beside the two acquisitions.
    fn promises_no_order(&self, one: u64, other: u64) -> bool {
        let quarantine = self.plan.least_quarantine();
        match self.plan.profile {
            Profile::Inside => self.short_reseeds && one + other + 3 * self.plan.skew >= quarantine,
            Profile::Outside => self.short_reseeds || self.losses && one.max(other) >= quarantine,
        }
    }

    fn excuse(&mut self) {
        self.tally.excused += 1;
        self.tally.excused_histories = 1;
    }

    /// What is wrong at the fenced store.
    pub(crate) fn on_fenced(&mut self, holder: Holder, wrong: Wrong) {
        if self.tally.excused > 0 {
            return self.excuse();
        }
        self.violation(Invariant::FencedStore, format!("{wrong:?} by {holder:?}"));
    }

    /// A write has arrived at the fenced store.
    pub(crate) fn written(&mut self, key: usize, holder: Holder, token: Token, read: u64) {
        let written = self.checker.fenced[key].write(holder, token, read);
        self.tally.fenced[usize::from(written.is_none())] += 1;
        if let Some(Err(wrong)) = written {
            self.on_fenced(holder, wrong);
        }
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
        self.wall.store(at / MICRO, Ordering::Relaxed);
        match happening {
            Happening::AtNode(arrival) => self.at_node(arrival),
            Happening::AtClient(arrival) => self.at_client(arrival),
            Happening::Wake { client } => self.wake(client),
            Happening::Turn { client, task, turn } => self.turn(client, task, turn),
            Happening::Strike => self.strike(),
            Happening::Resume { client } => self.resume(client),
            Happening::Speak { node } => self.speak(node),
            Happening::Written {
                key,
                holder,
                token,
                read,
            } => self.written(key, holder, token, read),
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
        let life = self.plan.longest_life() + self.checker.spare;
        let life = life.as_nanos() as u64 + self.stepped_back();
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
