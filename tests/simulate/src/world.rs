//! One history: clients, nodes and what is between them, in virtual time.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use redlock_protocol::Token;

use crate::{
    EPOCH, MICRO,
    agenda::{Agenda, Happening},
    checker::{Checker, Grant, Rule, Violation, WrongToken, bit},
    client::Client,
    foreign::Foreign,
    log::Log,
    made::Made,
    names::{KEYS, names},
    network::{Connection, Link},
    node::Node,
    plan::{Plan, Profile, Wall, Wanted},
    random::Random,
    rules::{Outage, Traffic},
    tally::Tally,
    trace,
};

/// A node that had lost its memory votes again, without all counters of before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reseed {
    pub(crate) at: u64,
    /// One of them was too far ahead of the clocks to be believed.
    pub(crate) is_bounded: bool,
}

/// How far tokens may be ahead of all wall clocks, in microseconds: by some blocks, and what is added where
/// numbers differ.
const MOST_AHEAD: u64 = 20_000;

#[derive(Default)]
pub(crate) struct World {
    /// True time, in nanoseconds, as everywhere where nothing else is said.
    pub(crate) now: u64,
    /// The same in microseconds, for the wall clocks of clients.
    pub(crate) wall: Arc<AtomicU64>,
    pub(crate) plan: Plan,
    pub(crate) random: Random,
    pub(crate) phase: Phase,
    pub(crate) names: [Arc<str>; KEYS],
    pub(crate) nodes: Vec<Node>,
    pub(crate) clients: Vec<Client>,
    pub(crate) foreign: Vec<Foreign>,
    /// All that were ever made.
    pub(crate) connections: Vec<Connection>,
    pub(crate) agenda: Agenda,
    /// Messages that have not arrived yet, but for [probes](crate::network::Message::work).
    pub(crate) under_way: usize,
    pub(crate) checker: Checker,
    pub(crate) tally: Tally,
    pub(crate) violations: Vec<Violation>,
    /// A node has lost its memory.
    pub(crate) losses: bool,
    /// When nodes that had have voted again, without the counters of so many others as it takes.
    pub(crate) short_reseeds: Vec<Reseed>,
    /// Some clock has stepped as it liked.
    pub(crate) clocks_stepped: bool,
    /// By how much engines took time for longer than it was. They number on by what they measure.
    pub(crate) stepped_forward: u64,
    /// The node whose counter nobody believes.
    pub(crate) poisoned: Option<usize>,
    /// The node that does not come back.
    pub(crate) gone: Option<usize>,
    /// The node that was used with another longest lease before.
    pub(crate) odd_node: Option<usize>,
    pub(crate) traffic: [Traffic; KEYS],
    /// When some client last saw that a node votes again, or all became calm.
    pub(crate) served_since: u64,
    pub(crate) storm_winners: usize,
    /// How many locks were granted.
    pub(crate) numbered: u32,
    /// Keys that processes have asked for under another owner in this step.
    pub(crate) unreleased: Vec<(usize, usize, String)>,
    pub(crate) outage: Option<Outage>,
    /// For each node, from when on it replies with errors for good.
    pub(crate) sick: Vec<Option<Outage>>,
    /// How much has happened.
    steps: u64,
    pub(crate) log: Log,
}

/// No history has more to do than this.
const STEPS: u64 = 5_000_000;

/// What a history is about at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Faults, and callers that ask again and again.
    #[default]
    Faulty,
    /// No new faults and no new callers, until everything has come to rest.
    Settling,
    /// Every caller asks once more for every key, and must get it.
    Calm,
    /// All ask for one key at once, and do not wait.
    Storm,
}

/// What a history came to.
#[derive(Default)]
pub(crate) struct History {
    pub(crate) tally: Tally,
    pub(crate) violations: Vec<Violation>,
    /// What it was like, if something was wrong.
    pub(crate) summary: String,
    pub(crate) digest: u64,
}

impl World {
    pub(crate) fn new(seed: u64, wanted: Wanted, log: Log) -> Self {
        let mut random = Random::new(seed);
        let plan = Plan::new(wanted, seed, &mut random);
        let nodes = plan.servers.count;
        let new_node = |number| Node::new(number, &plan, &mut random);
        Self {
            nodes: (0..nodes).map(new_node).collect(),
            names: names(plan.fleet.permits.is_some()),
            plan,
            random,
            checker: Checker::new(nodes),
            sick: vec![None; nodes],
            log,
            ..Self::default()
        }
    }

    pub(crate) fn violation(&mut self, rule: Rule, what: String) {
        trace!(self, "?? {rule:?}: {what}");
        self.violations.push(Violation {
            rule,
            at: self.now,
            what,
        });
    }

    // ---- tokens

    pub(crate) fn on_token(&mut self, client: usize, task: usize, token: Token) {
        let asked = &self.clients[client].tasks[task];
        let (key, mode) = (asked.key, asked.params.mode);
        let exclusive = self.plan.profile == Profile::Inside || !self.clocks_stepped;
        let place = ((client, self.clients[client].incarnation), key);
        let times = (None, self.now);
        let given = (token, mode);
        let (grant, wrong) = self.checker.on_token(place, given, times, exclusive);
        self.check_pace(client, key, token);
        let permits = self.plan.fleet.permits;
        let twice = permits.and_then(|_| self.checker.given_twice(key, token));
        self.judge_token(client, key, &grant, wrong.or(twice));
    }

    /// Numbers that run away from the clock may be given again if all nodes lose their memory.
    fn check_pace(&mut self, client: usize, key: usize, token: Token) {
        let ahead = self.ahead_of_clocks(token, self.now);
        let is_near = self.plan.wall == Wall::Near && self.poisoned.is_none();
        if is_near && ahead > MOST_AHEAD + self.stepped_forward / MICRO {
            let what = format!("client {client} gets {token} for key {key}, {ahead} us ahead");
            self.violation(Rule::Token, what);
        }
    }

    /// By how many microseconds.
    const fn ahead_of_clocks(&self, token: Token, at: u64) -> u64 {
        let clock = EPOCH + (at + self.plan.skew) / MICRO;
        token.0.saturating_sub(clock)
    }

    /// Is it wrong although order was promised?
    pub(crate) fn judge_token(
        &mut self,
        client: usize,
        key: usize,
        grant: &Grant,
        wrong: Option<WrongToken>,
    ) {
        let Some(wrong) = wrong else {
            return;
        };
        let is_excused = |other: &Grant| self.promises_no_order(other, grant);
        if let WrongToken::OutOfOrder(others) = &wrong
            && others.iter().all(is_excused)
        {
            self.tally.excused += 1;
            self.tally.excused_histories = 1;
        } else {
            let what = format!("client {client} gets {grant:?} for key {key}: {wrong:?}");
            self.violation(Rule::Token, what);
        }
    }

    /// True if memory was lost between two acquisitions such that nothing is promised about their
    /// tokens.
    ///
    /// Nothing is needed where nodes that lost their memory have got counters of so many nodes
    /// that remember theirs that one of them is in every majority of before, after all that had
    /// counted a grant of before have come to an end. Where they have not, clients' wall clocks
    /// must not be further apart than what a quarantine leaves, beside the two acquisitions.
    fn promises_no_order(&self, before: &Grant, after: &Grant) -> bool {
        let is_between = |reseed: &&Reseed| before.began <= reseed.at && reseed.at <= after.at;
        let short = || self.short_reseeds.iter().filter(is_between);
        let is_short = short().next().is_some();
        let quarantine = self.plan.least_quarantine();
        let is_close = before.took + after.took + 3 * self.plan.skew >= quarantine;
        // It came from a counter that was wrong, and no clock reaches it.
        let is_far = self.ahead_of_clocks(before.token, before.at) > MOST_AHEAD;
        let mut clients = [before, after].into_iter().map(|grant| grant.process.0);
        let is_careless = clients.any(|client| self.is_careless(client));
        if is_careless || short().any(|reseed| reseed.is_bounded) {
            return true;
        }
        match self.plan.profile {
            Profile::Inside => is_short && (self.plan.wall != Wall::Near || is_close || is_far),
            Profile::Outside => {
                is_short || self.losses && before.took.max(after.took) >= quarantine
            }
        }
    }

    // ---- time

    pub(crate) fn step(&mut self) -> bool {
        let Some((at, happening)) = self.agenda.pop() else {
            return false;
        };
        self.steps += 1;
        if self.steps == STEPS {
            let what = format!("too much happens, of late {happening:?}");
            self.violation(Rule::Rest, what);
            self.agenda = Agenda::default();
            return false;
        }
        self.now = at;
        self.wall.store(at / MICRO, Ordering::Relaxed);
        match happening {
            Happening::AtNode(arrival) => self.at_node(arrival),
            Happening::AtClient(arrival) => self.at_client(arrival),
            Happening::Wake { client } => self.wake(client),
            Happening::Turn { client, task, turn } => self.turn(client, task, turn),
            Happening::Join => self.join(),
            Happening::Strike => self.strike(),
            Happening::Act { step } => self.act(step),
            Happening::Resume { client } => self.resume(client),
            Happening::Speak { node } => self.speak(node),
            Happening::Up { node } => self.up(node),
            Happening::ForeignTurn { foreign, attempt } => self.foreign_turn(foreign, attempt),
            Happening::ForeignAtNode(letter) => self.foreign_at_node(letter),
            Happening::ForeignReply { letter, is_set } => self.foreign_reply(letter, is_set),
            Happening::CheckLoss {
                client,
                section,
                since,
            } => self.check_loss(client, section, since),
            Happening::CheckVote { node, process } => self.check_vote(node, process),
        }
        true
    }

    /// How much longer a key can live because of clocks that went back.
    pub(crate) fn stepped_back(&self) -> u64 {
        let stepped = self.nodes.iter().map(|node| node.stepped_back);
        stepped.max().unwrap_or(0)
    }

    // ---- leaks

    /// Everything has come to rest, for all clients or for one: what is left on nodes that it is
    /// connected to?
    pub(crate) fn check_leaks(&mut self, client: Option<usize>) {
        for node in 0..self.nodes.len() {
            for index in 0..KEYS {
                let parts: Vec<_> = self.nodes[node].made(index).iter().copied().collect();
                for made in parts {
                    self.check_leak(node, index, made, client);
                }
            }
        }
    }

    fn check_leak(&mut self, node: usize, index: usize, made: Made, client: Option<usize>) {
        let one = &self.nodes[node];
        let Some(part) = one.part(index, made.owner, self.now) else {
            return;
        };
        let owner = made.owner.and_then(|owner| self.checker.attempted(owner));
        let Some(attempted) = owner else {
            return;
        };
        let owner = &self.clients[attempted.client];
        let link = &owner.links[node];
        // Nobody comes for these: the node does not delete, the process is gone, the release came before the
        // request on another connection, was answered with an error, or was owed until
        // the key should have expired, and the node was not there before or the client
        // is not there any more. Or the key had expired, until the node's clock stepped back.
        let excused = !one.sickness.deletes()
            || attempted.incarnation != owner.incarnation
            || made.orphan
            || (attempted.release_refused | attempted.kept_by) & bit(node) != 0
            || attempted.denied & bit(node) != 0 && one.stepped_back > 0
            || link.up_since >= attempted.expires
            || client.is_some() && owner.clock.read(self.now) >= attempted.expires;
        let asked_for = client.is_none_or(|client| client == attempted.client);
        if asked_for && self.is_reachable(link) && !excused {
            let what = format!("node {node} still has {part:?} of key {index}");
            self.violation(Rule::Leak, what);
        }
    }

    /// A node has a key that it has refused to delete.
    pub(crate) fn is_release_refused(&self) -> bool {
        let is_refused = |node: usize, key: usize| {
            let one = &self.nodes[node];
            one.made(key).iter().any(|made| {
                let owner = made.owner.and_then(|owner| self.checker.attempted(owner));
                owner.is_some_and(|owner| owner.release_refused & bit(node) != 0)
                    && one.part(key, made.owner, self.now).is_some()
            })
        };
        (0..self.nodes.len()).any(|node| (0..KEYS).any(|key| is_refused(node, key)))
    }

    pub(crate) fn is_reachable(&self, link: &Link) -> bool {
        let connection = link.current.filter(|_| link.up);
        connection.is_some_and(|connection| !self.connections[connection].is_half_open())
    }
}
