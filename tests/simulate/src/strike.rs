//! How faults strike.

use redlock_protocol::{Token, majority};

use crate::{
    MILLI, SECOND,
    agenda::Happening,
    draws::Draw,
    faults::Fault,
    network::Notice,
    node::Left,
    plan::Profile,
    sickness::Sickness,
    trace,
    world::{Phase, World},
};

impl World {
    pub(crate) fn schedule_strike(&mut self) {
        if !self.plan.faults.is_empty() {
            let pause = 1 + self.random.below(2 * self.plan.fault_pause);
            self.agenda.at(self.now + pause, Happening::Strike);
        }
    }

    /// Lets something go wrong, and schedules the next time.
    pub(crate) fn strike(&mut self) {
        if self.phase != Phase::Faulty {
            return;
        }
        let fault = self.plan.faults[self.random.index(self.plan.faults.len())];
        let node = self.random.index(self.nodes.len());
        let client = self.victim();
        if self.random.chance(200) {
            let saved = self.random.index(self.nodes.len());
            self.nodes[saved].save();
        }
        trace!(self, "!! {fault:?} (client {client}, node {node})");
        self.strike_one(fault, client, node);
        self.schedule_strike();
    }

    fn strike_one(&mut self, fault: Fault, client: usize, node: usize) {
        match fault {
            Fault::ConnectionBroken => {
                self.hit(fault, Some(client));
                self.break_link(client, node);
            }
            Fault::HalfOpen => {
                self.hit(fault, Some(client));
                self.half_open(client, node);
            }
            Fault::Partition => self.partition(client, node),
            Fault::NodeSilent => {
                self.hit(fault, None);
                let until = self.now + self.a_while();
                self.silence(node, until);
            }
            Fault::NodeSlow => {
                self.hit(fault, None);
                let slow = self.random.below(self.plan.lease / 2);
                let until = self.now + self.a_while();
                let slowed = &mut self.nodes[node];
                slowed.slow_until = until;
                slowed.slow_by = slow;
                slowed.troubled = slowed.troubled.max(until + slow);
            }
            Fault::NodeCrash => {
                self.hit(fault, None);
                self.crash(node, None);
            }
            Fault::EmptyRestart => self.restart_nodes(node, Left::Nothing),
            Fault::SnapshotRestart => self.restart_nodes(node, Left::Snapshot),
            Fault::Promoted => self.promote(node),
            Fault::Flushed if self.may_forget(node) => self.flush(node),
            // Would be more loss than the profile allows.
            Fault::Flushed => {}
            Fault::ClientPaused => self.pause(client),
            Fault::ClientClockStep => self.step_client(client),
            Fault::NodeClockStep => self.step_node(node),
            Fault::ClientKilled => {
                self.hit(fault, Some(client));
                self.restart(client);
            }
            Fault::EngineShutDown => self.shut_down(client),
            Fault::ScriptsFlushed => {
                self.hit(fault, None);
                self.nodes[node].flush_scripts();
            }
            Fault::ErrorReplies => self.reply_errors(node),
            Fault::ErrorsForGood => {
                let kind = self.random.pick(&Sickness::FOR_GOOD);
                self.sicken_for_good(node, kind);
            }
            Fault::CounterPoisoned => self.poison(node),
            _ => {}
        }
    }

    pub(crate) fn silence(&mut self, node: usize, until: u64) {
        let silent = &mut self.nodes[node];
        silent.silent_until = until;
        silent.troubled = silent.troubled.max(until);
        self.agenda.at(until, Happening::Speak { node });
    }

    /// Mostly one that has to do with a lock now.
    fn victim(&mut self) -> usize {
        let drawn = self.random.index(self.clients.len());
        if self.random.chance(250) {
            return drawn;
        }
        let busy = |&client: &usize| self.clients[client].is_busy();
        let turned = (0..self.clients.len()).map(|index| (drawn + index) % self.clients.len());
        turned.into_iter().find(busy).unwrap_or(drawn)
    }

    /// Often short, and sometimes well beyond a lease.
    fn a_while(&mut self) -> u64 {
        let longest = self.plan.lease * self.random.pick(&[1, 2, 5]) / 2;
        1 + self.random.below(longest)
    }

    fn partition(&mut self, client: usize, node: usize) {
        let until = self.now + self.a_while();
        let nodes = self.nodes.len();
        let (clients, nodes) = match self.random.below(3) {
            0 => (client..client + 1, node..node + 1),
            1 => (0..self.clients.len(), node..node + 1),
            _ => (client..client + 1, 0..nodes),
        };
        for client in clients {
            for node in nodes.clone() {
                self.clients[client].links[node].block(until);
            }
        }
        self.hit(Fault::Partition, Some(client));
    }

    // ---- memory

    /// Whether a node may lose its memory. If new nodes wait for less than the longest lease, as a single one
    /// never does, one must remain that remembers: without it a loss of everything looks like a first start.
    pub(crate) fn may_forget(&self, node: usize) -> bool {
        let is_odd = |other: usize| self.odd_node == Some(other);
        let is_witness =
            |other: usize| other != node && !is_odd(other) && self.nodes[other].votes();
        if self.odd_node.is_some() && !(0..self.nodes.len()).any(is_witness) {
            // Nobody could say whose longest lease is meant.
            return false;
        }
        let is_alone = self.nodes.len() == 1;
        if self.plan.profile == Profile::Outside || !self.plan.has_short_defaults() || is_alone {
            return true;
        }
        let others = self.nodes.iter().enumerate();
        let mut others = others.filter(|&(other, _)| other != node);
        !self.nodes[node].votes() || others.any(|(_, other)| other.votes())
    }

    /// One, or several at once, lose their memory.
    fn restart_nodes(&mut self, first: usize, left: Left) {
        let nodes = self.nodes.len();
        let is_one = !self.random.chance(300);
        let count = 1 + if is_one { 0 } else { self.random.index(nodes) };
        for place in first..first + count {
            let node = place % nodes;
            // One that has everything on disk loses nothing.
            let left = match self.nodes[node].is_durable {
                true => Left::Everything,
                false => left,
            };
            if left == Left::Everything || self.may_forget(node) {
                let fault = match left {
                    Left::Snapshot => Fault::SnapshotRestart,
                    _ => Fault::EmptyRestart,
                };
                self.hit(fault, None);
                self.crash(node, Some(left));
            }
        }
    }

    /// Another process takes over with an old copy of the data. What was durable is so no more, because
    /// a replica may lack what its master has granted; or it is from now on. No former master comes back that
    /// was durable: it lacks what others have granted in its place.
    fn promote(&mut self, node: usize) {
        if !self.may_forget(node) || self.nodes[node].down {
            return;
        }
        self.hit(Fault::Promoted, None);
        self.crash(node, Some(Left::Snapshot));
        let promoted = &mut self.nodes[node];
        let marker = promoted.record(self.now).marker;
        let was_durable = marker.is_some_and(|marker| marker.was_durable);
        promoted.is_durable = !promoted.is_durable && !was_durable;
    }

    pub(crate) fn flush(&mut self, node: usize) {
        self.hit(Fault::Flushed, None);
        self.nodes[node].flush(self.now);
        self.forgot(node);
        self.tell_all(node);
    }

    fn crash(&mut self, node: usize, left: Option<Left>) {
        if self.nodes[node].down {
            return;
        }
        let back = self.now + self.a_while();
        let notice = if self.random.chance(750) {
            Notice::Soon
        } else {
            Notice::Never
        };
        self.down(node, left, notice);
        self.agenda.at(back, Happening::Up { node });
    }

    /// A node is not there any more, for as long as nobody says so.
    pub(crate) fn down(&mut self, node: usize, left: Option<Left>, notice: Notice) {
        let dead = &mut self.nodes[node];
        dead.down = true;
        dead.troubled = u64::MAX;
        dead.silent_until = 0;
        dead.flush_scripts();
        let lost = std::mem::take(&mut dead.backlog);
        if let Some(left) = left {
            dead.restart(left, self.now);
            if left != Left::Everything {
                self.forgot(node);
            }
        }
        for arrival in lost {
            self.under_way -= arrival.message.work();
            self.lose(&arrival);
        }
        for connection in self.nodes[node].connections.clone() {
            self.break_connection(connection, false, notice);
        }
    }

    // ---- errors

    fn reply_errors(&mut self, node: usize) {
        self.hit(Fault::ErrorReplies, None);
        let few = 1 + self.random.below(4) as u32;
        let sick = &mut self.nodes[node];
        if !sick.sickness.is_for_good() {
            sick.sickness = if self.random.chance(700) {
                Sickness::Loading(few)
            } else {
                Sickness::Garbling(few)
            };
            sick.troubled = u64::MAX;
        }
    }

    /// Without this node each client has a majority that is well.
    fn can_spare(&self, node: usize) -> bool {
        let nodes = self.nodes.len();
        let is_spared = |place: usize| {
            let ailments = self.plan.ailments(place);
            let is_well =
                |&other: &usize| other != node && self.is_well(other) && ailments[other].is_none();
            (0..nodes).filter(is_well).count() >= majority(nodes)
        };
        (0..self.plan.fleet.starts.len()).all(is_spared)
    }

    /// A majority must be left that is well.
    pub(crate) fn sicken_for_good(&mut self, node: usize, kind: Sickness) {
        if self.can_spare(node) {
            trace!(self, "!! node {node} is {kind:?} for good");
            self.hit(Fault::ErrorsForGood, None);
            self.nodes[node].sickness = kind;
            self.nodes[node].troubled = u64::MAX;
            self.sick[node] = Some(self.count());
        }
    }

    /// One node has a counter that nobody believes. Only once: a second time might set it back.
    fn poison(&mut self, node: usize) {
        if self.poisoned.is_none() && self.can_spare(node) {
            self.poisoned = Some(node);
            self.hit(Fault::CounterPoisoned, None);
            let index = self.random.index(self.plan.fleet.keys);
            // One that is no counter; or one that is far ahead, which where memory is lost becomes
            // the floor of others.
            let highest = Token::HIGHEST_PLAUSIBLE.0;
            let far = match (self.plan.forgets(), self.plan.draws.has(Draw::FarCounters)) {
                (false, _) => [(1 << 52) - 300, 1 << 51],
                (true, false) => [(1 << 52) + 1; 2],
                (true, true) => [highest, 1 << 51],
            };
            let value = self.random.pick(&[1 << 53, 1 << 53, far[0], far[1]]);
            self.nodes[node].poison(index, value);
        }
    }

    // ---- clients and clocks

    fn pause(&mut self, client: usize) {
        if self.clients[client].paused_until > self.now {
            return;
        }
        self.hit(Fault::ClientPaused, Some(client));
        let time = self.a_while();
        self.clients[client].pause(self.now, time);
        let resume = self.now + time + self.random.below(MILLI / 5);
        self.agenda.at(resume, Happening::Resume { client });
    }

    /// The clock of an engine never goes back: it stands still instead.
    fn step_client(&mut self, client: usize) {
        self.hit(Fault::ClientClockStep, Some(client));
        let step = self.random.below(3 * SECOND);
        let (forward, stall) = match step.checked_sub(SECOND) {
            Some(forward) => (forward, 0),
            None => (0, step),
        };
        self.clients[client].step(self.now, forward, stall);
        self.stepped_forward += forward;
        self.clocks_stepped = true;
        self.arm(client);
    }

    fn step_node(&mut self, node: usize) {
        self.hit(Fault::NodeClockStep, None);
        if self.plan.profile == Profile::Inside {
            let ahead = self.random.below(self.plan.guard_band);
            return self.nodes[node].set_ahead(self.now, ahead);
        }
        self.clocks_stepped = true;
        let step = self.random.below(3 * SECOND);
        let stepped = &mut self.nodes[node];
        match step.checked_sub(SECOND) {
            Some(forward) => {
                stepped.clock.step_forward(self.now, forward);
                stepped.stepped_forward += forward;
            }
            None => {
                stepped.clock.step_back(self.now, step);
                stepped.stepped_back += step;
            }
        }
    }

    fn shut_down(&mut self, client: usize) {
        if self.clients[client].paused || self.clients[client].shut_down.is_some() {
            return;
        }
        self.hit(Fault::EngineShutDown, Some(client));
        let timeout = self.random.pick(&[0, 1, 4]) * self.plan.lease / 2;
        let abort_holders = self.random.chance(500);
        self.tell_shutdown(client, timeout, abort_holders);
    }

    // ---- the end of it

    /// Ends all faults that would go on by themselves, but those that are for good.
    pub(crate) fn heal(&mut self) {
        trace!(self, "!! no more faults");
        let soon = self.now + MILLI;
        let node = self.random.index(self.nodes.len());
        if self.plan.draws.has(Draw::Gone) && self.can_spare(node) {
            trace!(self, "!! node {node} is gone");
            self.gone = Some(node);
            self.down(node, None, Notice::Soon);
        }
        for node in 0..self.nodes.len() {
            let healed = &mut self.nodes[node];
            healed.slow_until = healed.slow_until.min(self.now);
            if !healed.sickness.is_for_good() {
                healed.sickness = Sickness::Healthy;
                // What it was slow with is on its way.
                healed.troubled = self.now.max(healed.slow_until + healed.slow_by);
            }
            if healed.down && self.gone != Some(node) {
                self.agenda.at(soon, Happening::Up { node });
            }
            if healed.silent_until > self.now {
                healed.silent_until = self.now;
                self.agenda.at(self.now, Happening::Speak { node });
            }
        }
        for client in 0..self.clients.len() {
            for link in &mut self.clients[client].links {
                link.blocked_until = 0;
            }
            if self.clients[client].paused {
                self.clients[client].paused_until = self.now;
                self.agenda.at(self.now, Happening::Resume { client });
            }
        }
        for connection in 0..self.connections.len() {
            // Some are left for the protocol to find out.
            let left = self.plan.half_open_at_last && !self.connections[connection].broken;
            if self.connections[connection].is_half_open() && !left {
                self.break_connection(connection, false, Notice::Soon);
            }
        }
    }
}
