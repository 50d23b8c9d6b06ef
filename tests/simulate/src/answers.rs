//! What callers hear of their sections.

use redlock_protocol::{
    Answer, Instant, Loss, NodeId, NodeState, Owner, Refusal, Release, SectionId, majority,
};

use crate::{
    MILLI,
    ailment::Ailment,
    callers::{Over, Stage, Task, task_of},
    checker::{Belief, Rule},
    client::Limit,
    network::Link,
    node::Node,
    plan::{Profile, nanos},
    scenario::Scenario,
    sickness::Sickness,
    world::{Phase, World},
};

impl World {
    pub(crate) fn answer(&mut self, client: usize, section: SectionId, answer: Answer) {
        let task = task_of(section);
        let one = &self.clients[client].tasks[task];
        let stage = one.stage;
        if one.section != section || matches!(stage, Stage::Idle) {
            let what = format!("client {client} hears {answer:?} of {section:?}, which has ended");
            return self.violation(Rule::Answer, what);
        }
        match (answer, stage) {
            (
                Answer::Granted {
                    deadline, token, ..
                },
                Stage::Asking { by },
            ) => {
                self.find_slot(client, task, token);
                match self.clients[client].tasks[task].is_of_several() {
                    true => self.on_token_of_all(client, task, token),
                    false => self.on_token(client, task, token),
                }
                self.in_time(client, by, "of a grant");
                self.granted(client, task, deadline);
            }
            (Answer::Refused(refusal), Stage::Asking { by }) => {
                self.in_time(client, by, "of a refusal");
                self.refused(client, task, &refusal);
            }
            (Answer::Extended { deadline }, Stage::Holding { until, .. }) => {
                self.prolonged(client, task, deadline);
                // It may have a counter that others ask for numbers.
                self.numbered += 1;
                let one = &mut self.clients[client].tasks[task];
                one.stage = Stage::Holding { deadline, until };
            }
            (Answer::Extended { .. }, Stage::Stuck) => {
                let what = format!("client {client}'s {section:?} is extended after its end");
                self.violation(Rule::Revival, what);
            }
            (Answer::NotExtended { .. }, Stage::Holding { .. } | Stage::Stuck) => {
                self.extended(client, task);
            }
            (Answer::Over(loss), Stage::Holding { .. } | Stage::Stuck) => {
                self.extended(client, task);
                self.lost(client, task, &loss, matches!(stage, Stage::Holding { .. }));
            }
            (Answer::Released(release), Stage::Releasing { by, over }) => {
                self.in_time(client, by, "of a release");
                self.released(client, task, release, over);
            }
            (answer, stage) => {
                let what = format!("client {client} hears {answer:?} of {section:?} in {stage:?}");
                self.violation(Rule::Answer, what);
            }
        }
    }

    pub(crate) fn in_time(&mut self, client: usize, by: Limit, what: &str) {
        if self.clients[client].is_past(by, self.now) {
            let what = format!("client {client} hears {what} too late, not by {by:?}");
            self.violation(Rule::Answer, what);
        }
    }

    fn granted(&mut self, client: usize, task: usize, deadline: Instant) {
        self.tally.acquisitions += 1;
        self.storm_winners += usize::from(self.phase == Phase::Storm);
        let until = self.hold_until(client, task);
        let now = Instant::from_nanos(self.clients[client].clock.read(self.now));
        let one = &mut self.clients[client].tasks[task];
        let (key, section) = (one.key, one.section);
        one.stage = Stage::Holding { deadline, until };
        let is_of_permits = one.weight > 0;
        one.owner = self.checker.latest_owner(client, key);
        one.owner.take_if(|_| is_of_permits);
        for (key, owner) in &mut one.others {
            *owner = self.checker.latest_owner(client, *key);
        }
        one.granted = now.as_nanos();
        one.began = self.now;
        one.extending = None;
        one.has_asked_for_more = false;
        let (valid, least) = (deadline.since(now), one.params.min_validity);
        let longest = one.params.lease;
        if valid < least || valid > longest {
            let what = format!("client {client} is granted {valid:?} of {longest:?}");
            self.violation(Rule::Validity, what);
        }
        self.on_numbers(client, task);
        self.check_cover(client, task, deadline);
        self.check_period(client, task, deadline);
        self.check_order(client, task);
        let is_of_several = self.clients[client].tasks[task].is_of_several();
        let is_first = self.checker.leave(client, self.line_of(key), section);
        if !is_first && !is_of_several && self.is_in_order() {
            let what = format!("client {client}'s {section:?} is granted before its turn");
            self.violation(Rule::Line, what);
        }
        match is_of_several {
            true => self.on_holder_of_all(client, task),
            false => self.on_holder(client, task),
        }
        let is_careless = self.is_careless(client);
        let modes: Vec<_> = self.clients[client].tasks[task].modes().collect();
        for (key, mode) in modes {
            let belief = Belief {
                client,
                section,
                mode,
                is_careless,
                deadline,
                since: self.now,
            };
            self.believe(key, belief);
        }
        self.schedule_step(client, task);
    }

    fn hold_until(&mut self, client: usize, task: usize) -> u64 {
        let longest = match self.phase {
            Phase::Storm => return self.now + self.plan.lease / 2,
            Phase::Calm => 2 * MILLI,
            Phase::Faulty | Phase::Settling => self.plan.habits.hold_longest,
        };
        if self.is_stuck_at_last(client, task) {
            return self.now + 2 * self.plan.lease;
        }
        if self.phase == Phase::Faulty && self.plan.is_leader(client, task) {
            return self.plan.active;
        }
        self.now + self.random.below(longest)
    }

    /// A majority of nodes keeps the key for at least as long as its holder believes in it.
    fn check_cover(&mut self, client: usize, task: usize, deadline: Instant) {
        let one = &self.clients[client].tasks[task];
        if self.plan.profile == Profile::Outside || self.losses {
            return;
        }
        let until = self.clients[client].clock.when(deadline.as_nanos());
        let keeps = |node: &Node, (key, owner): (usize, Option<Owner>)| {
            let part = node.part(key, owner, self.now);
            part.is_some_and(|part| {
                part.expires.is_none_or(|expires| {
                    node.clock.read(until) / MILLI <= expires.as_nanos() / MILLI
                })
            })
        };
        let keeping = |held| self.nodes.iter().filter(|node| keeps(node, held)).count();
        let fewest = one.keys().map(|held| (keeping(held), held.1)).min();
        if let Some((nodes, owner)) = fewest.filter(|(nodes, _)| *nodes <= self.nodes.len() / 2) {
            let what = format!("only {nodes} nodes keep {owner:?} until {deadline:?}");
            self.violation(Rule::Validity, what);
        }
    }

    fn prolonged(&mut self, client: usize, task: usize, deadline: Instant) {
        let now = self.clients[client].clock.read(self.now);
        let one = &self.clients[client].tasks[task];
        let section = one.section;
        if one.params.renew.is_none() && !one.has_asked_for_more {
            let what = format!("client {client}'s {section:?} is extended, which it did not want");
            self.violation(Rule::Answer, what);
        }
        for key in self.keys_of(client, task) {
            if !self.checker.extend(key, client, section, deadline, now) {
                let what = format!("client {client}'s {section:?} is extended after its end");
                self.violation(Rule::Revival, what);
            }
        }
        self.extended(client, task);
        self.check_cover(client, task, deadline);
        let one = &self.clients[client].tasks[task];
        if let Some(most) = one.params.max_hold
            && deadline.as_nanos() > one.granted + most.as_nanos() as u64
        {
            let what = format!("client {client}'s {section:?} is held beyond {most:?}");
            self.violation(Rule::Validity, what);
        }
    }

    /// An extension that was asked for has come to something.
    pub(crate) fn extended(&mut self, client: usize, task: usize) {
        if let Some((_, by)) = self.clients[client].tasks[task].extending.take() {
            self.in_time(client, by, "of an extension");
        }
    }

    fn refused(&mut self, client: usize, task: usize, refusal: &Refusal) {
        let one = &self.clients[client].tasks[task];
        let (key, section) = (one.key, one.section);
        self.checker.leave(client, key, section);
        let is_bound_to_wait = self.plan.may_disagree() || self.needs_littered_nodes(client);
        if self.phase == Phase::Calm && !is_bound_to_wait {
            let what = format!("client {client}'s {section:?} waited in vain: {refusal:?}");
            self.violation(Rule::WakeUp, what);
        }
        self.rest(client, task);
    }

    /// It has no majority without nodes on which some process leaves its keys until they expire.
    fn needs_littered_nodes(&self, client: usize) -> bool {
        let litters = Some(Ailment::Refused(Sickness::DeletesNothing));
        let is_tidy = |node: usize| {
            let mut all = self.clients.iter();
            !self.clients[client].links[node].is_sick()
                && all.all(|one| one.links[node].ailment != litters)
        };
        let nodes = self.nodes.len();
        (0..nodes).filter(|&node| is_tidy(node)).count() < majority(nodes)
    }

    fn lost(&mut self, client: usize, task: usize, loss: &Loss, holding: bool) {
        let one = &self.clients[client].tasks[task];
        let held: Vec<_> = one.keys().collect();
        if *loss != Loss::Stopped {
            for (key, owner) in held {
                self.checker.over(client, key, owner);
            }
            self.check_endurance(client, task, loss);
        }
        if holding {
            self.lose_hold(client, task);
        }
    }

    fn released(&mut self, client: usize, task: usize, release: Release, over: Over) {
        let nodes = self.nodes.len();
        let majority = majority(nodes);
        let one = &self.clients[client].tasks[task];
        let (section, kept, owner) = (one.section, one.kept, one.owner);
        let owners: Vec<_> = one.keys().filter_map(|(_, owner)| owner).collect();
        let known = self.checker.end_in_truth(client, section);
        if let Some(owner) = owner {
            let (had_it, missing) = known.unwrap_or((0, nodes));
            let truth = match release {
                Release::Released => over == Over::No && had_it >= majority,
                Release::AlreadyExpired => {
                    over == Over::Yes || nodes - missing < majority || kept < majority
                }
                _ => {
                    let may_be =
                        self.may_be_unknown(client) || self.shares_with_stuck(client, &owners);
                    over == Over::No && may_be
                }
            };
            if !truth {
                let what = format!(
                    "client {client} hears {release:?} of {owner:?}: {had_it} of {nodes} had it, \
                     {missing} did not have it, its lease was over: {over:?}"
                );
                self.violation(Rule::Outcome, what);
            }
        }
        self.rest(client, task);
    }

    /// Another section that read beside it has overrun its lease, and so has ended what they had in common,
    /// before any node had replied.
    fn shares_with_stuck(&self, client: usize, owners: &[Owner]) -> bool {
        let tasks = self.clients[client].tasks.iter();
        let stuck = tasks.filter(|task| matches!(task.stage, Stage::Stuck));
        let mut theirs = stuck.flat_map(Task::keys).filter_map(|(_, owner)| owner);
        theirs.any(|owner| owners.contains(&owner))
    }

    /// Some node may not have replied to a release.
    fn may_be_unknown(&self, client: usize) -> bool {
        let calm = matches!(self.phase, Phase::Calm | Phase::Storm);
        let is_sick = (0..self.nodes.len()).any(|node| !self.can_vote(node));
        // A release waits for the round before it, and for the refusals of sick nodes.
        let is_hasty = self.plan.plain_params().round_timeout() < nanos(20 * MILLI);
        // A node whose clock seems to be ahead, because the client's stood still, is not believed.
        let is_doubted = |link: &Link| !link.is_voter || link.is_sick();
        let is_doubted = self.clients[client].links.iter().any(is_doubted);
        !calm || self.plan.half_open_at_last || is_sick || is_doubted || is_hasty
    }

    /// The protocol says what it thinks of a node.
    pub(crate) fn node_changed(&mut self, client: usize, node: NodeId, state: &NodeState) {
        let is_voter = *state == NodeState::Up;
        let link = &mut self.clients[client].links[node.0];
        if is_voter && !link.is_voter {
            self.served_since = self.now;
        }
        link.is_voter = is_voter;
        if let NodeState::ClockAhead { by, .. } = state
            && self.plan.profile == Profile::Inside
        {
            let stepped = self.nodes[node.0].stepped_forward;
            let few = self.plan.scenario == Scenario::Steps;
            if few || stepped <= self.plan.guard_band {
                let what = format!(
                    "client {client} bars node {} for {by:?}, whose clock has stepped by {stepped}",
                    node.0
                );
                self.violation(Rule::Vote, what);
            }
        }
    }
}
