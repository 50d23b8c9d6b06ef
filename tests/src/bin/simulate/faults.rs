//! What goes wrong, and how often it mattered.

use crate::{
    MILLI, SECOND,
    agenda::Happening,
    network::Notice,
    node::Left,
    plan::Profile,
    trace,
    world::{Phase, World},
};

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Harm {
    // Struck by `World::strike`.
    ConnectionBroken,
    HalfOpen,
    Partition,
    NodeSilent,
    NodeSlow,
    NodeCrash,
    EmptyRestart,
    Flushed,
    ClientPaused,
    ClientClockStep,
    NodeClockStep,
    ClientKilled,
    EngineShutDown,
    ScriptsFlushed,
    ErrorReplies,
    // What the network and the callers do all the time.
    MessageLate,
    RequestLost,
    ReplyLost,
    Overtaken,
    StaleNews,
    CallerCancelled,
    /// A lease that ran to its deadline while the holder's clock was slower than some node's by
    /// 0.5 % or more.
    ExpiredUnderDrift,
}

impl Harm {
    pub(crate) const STRUCK: [Self; 15] = [
        Self::ConnectionBroken,
        Self::HalfOpen,
        Self::Partition,
        Self::NodeSilent,
        Self::NodeSlow,
        Self::NodeCrash,
        Self::EmptyRestart,
        Self::Flushed,
        Self::ClientPaused,
        Self::ClientClockStep,
        Self::NodeClockStep,
        Self::ClientKilled,
        Self::EngineShutDown,
        Self::ScriptsFlushed,
        Self::ErrorReplies,
    ];

    pub(crate) const NAMES: [&str; 22] = [
        "connection_broken",
        "half_open",
        "partition",
        "node_silent",
        "node_slow",
        "node_crash",
        "empty_restart",
        "flushed",
        "client_paused",
        "client_clock_step",
        "node_clock_step",
        "client_killed",
        "engine_shut_down",
        "scripts_flushed",
        "error_replies",
        "message_late",
        "request_lost",
        "reply_lost",
        "overtaken",
        "stale_news",
        "caller_cancelled",
        "expired_under_drift",
    ];

    /// False for what breaks the assumptions of the protocol.
    pub(crate) const fn is_inside(self, guard_band: u64) -> bool {
        match self {
            Self::ClientClockStep => false,
            Self::NodeClockStep => guard_band > 0,
            _ => true,
        }
    }

    pub(crate) const fn loses_memory(self) -> bool {
        matches!(self, Self::EmptyRestart | Self::Flushed)
    }
}

impl World {
    /// Counts a fault if a lock was held or being acquired when it hit.
    pub(crate) fn hit(&mut self, harm: Harm, client: Option<usize>) {
        let mattered = match client {
            Some(client) => self.clients[client].is_busy(),
            None => self.clients.iter().any(crate::client::Client::is_busy),
        };
        if mattered {
            self.tally.faults[harm as usize] += 1;
        }
    }

    pub(crate) fn schedule_strike(&mut self) {
        if !self.plan.harms.is_empty() {
            let pause = 1 + self.random.below(2 * self.plan.fault_pause);
            self.agenda.at(self.now + pause, Happening::Strike);
        }
    }

    /// Lets something go wrong, and schedules the next time.
    pub(crate) fn strike(&mut self) {
        if self.phase != Phase::Faulty {
            return;
        }
        let harm = self.plan.harms[self.random.index(self.plan.harms.len())];
        let node = self.random.index(self.nodes.len());
        let client = self.victim();
        if self.random.chance(200) {
            let saved = self.random.index(self.nodes.len());
            self.nodes[saved].save();
        }
        trace!(self, "!! {harm:?} (client {client}, node {node})");
        match harm {
            Harm::ConnectionBroken => {
                self.hit(harm, Some(client));
                self.break_link(client, node);
            }
            Harm::HalfOpen => {
                self.hit(harm, Some(client));
                self.half_open(client, node);
            }
            Harm::Partition => self.partition(client, node),
            Harm::NodeSilent => {
                self.hit(harm, None);
                self.nodes[node].silent_until = self.now + self.a_while();
                let until = self.nodes[node].silent_until;
                self.agenda.at(until, Happening::Speak { node });
            }
            Harm::NodeSlow => {
                self.hit(harm, None);
                self.nodes[node].slow_until = self.now + self.a_while();
                self.nodes[node].slow_by = self.random.below(self.plan.lease / 2);
            }
            Harm::NodeCrash => {
                self.hit(harm, None);
                self.crash(node, None);
            }
            Harm::EmptyRestart => self.restart_nodes(node),
            Harm::Flushed => self.flush(node),
            Harm::ClientPaused => self.pause(client),
            Harm::ClientClockStep => self.step_client(client),
            Harm::NodeClockStep => self.step_node(node),
            Harm::ClientKilled => {
                self.hit(harm, Some(client));
                self.restart(client);
            }
            Harm::EngineShutDown => self.shut_down(client),
            Harm::ScriptsFlushed => {
                self.hit(harm, None);
                self.nodes[node].flush_scripts();
            }
            Harm::ErrorReplies => {
                self.hit(harm, None);
                self.nodes[node].errors = 1 + self.random.below(4) as u32;
            }
            _ => {}
        }
        self.schedule_strike();
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
        match self.random.below(3) {
            0 => self.clients[client].links[node].blocked_until = until,
            1 => {
                for client in 0..self.clients.len() {
                    self.clients[client].links[node].blocked_until = until;
                }
            }
            _ => {
                for node in 0..self.nodes.len() {
                    self.clients[client].links[node].blocked_until = until;
                }
            }
        }
        self.hit(Harm::Partition, Some(client));
    }

    /// One, or several at once, lose their memory.
    fn restart_nodes(&mut self, first: usize) {
        let nodes = self.nodes.len();
        let several = self.random.chance(300);
        let count = if several {
            1 + self.random.index(nodes)
        } else {
            1
        };
        self.losses = true;
        for node in first..first + count {
            self.hit(Harm::EmptyRestart, None);
            let left = self.random.pick(&[Left::Nothing, Left::Snapshot]);
            self.crash(node % nodes, Some(left));
        }
    }

    fn flush(&mut self, node: usize) {
        self.hit(Harm::Flushed, None);
        self.losses = true;
        self.nodes[node].flush(self.now);
        self.tell_all(node);
    }

    fn crash(&mut self, node: usize, left: Option<Left>) {
        if self.nodes[node].down {
            return;
        }
        let back = self.now + self.a_while();
        let dead = &mut self.nodes[node];
        dead.down = true;
        dead.silent_until = 0;
        dead.flush_scripts();
        if let Some(left) = left {
            dead.restart(left, self.now);
        }
        let lost = std::mem::take(&mut dead.backlog);
        self.under_way -= lost.len();
        for arrival in lost {
            self.lose(&arrival);
        }
        for connection in 0..self.connections.len() {
            if self.connections[connection].node == node {
                let notice = if self.random.chance(750) {
                    Notice::Soon
                } else {
                    Notice::Never
                };
                self.break_connection(connection, false, notice);
            }
        }
        self.agenda.at(back, Happening::Up { node });
    }

    fn pause(&mut self, client: usize) {
        if self.clients[client].paused_until > self.now {
            return;
        }
        self.hit(Harm::ClientPaused, Some(client));
        let time = self.a_while();
        let paused = &mut self.clients[client];
        paused.paused_until = self.now + time;
        paused.paused = true;
        paused.delayed += time;
        let resume = paused.paused_until + self.random.below(MILLI / 5);
        self.agenda.at(resume, Happening::Resume { client });
    }

    /// The clock of an engine never goes back: it stands still instead.
    fn step_client(&mut self, client: usize) {
        self.hit(Harm::ClientClockStep, Some(client));
        let step = self.random.below(3 * SECOND);
        let stepped = &mut self.clients[client];
        match step.checked_sub(SECOND) {
            Some(forward) => stepped.clock.step_forward(self.now, forward),
            None => {
                stepped.clock.stall(self.now, step);
                stepped.delayed += step;
            }
        }
        stepped.wake_at = None;
        self.arm(client);
    }

    fn step_node(&mut self, node: usize) {
        self.hit(Harm::NodeClockStep, None);
        if self.plan.profile == Profile::Inside {
            let ahead = self.random.below(self.plan.guard_band);
            return self.nodes[node].set_ahead(self.now, ahead);
        }
        let step = self.random.below(3 * SECOND);
        let stepped = &mut self.nodes[node];
        match step.checked_sub(SECOND) {
            Some(forward) => stepped.clock.step_forward(self.now, forward),
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
        self.hit(Harm::EngineShutDown, Some(client));
        let timeout = self.random.pick(&[0, 1, 4]) * self.plan.lease / 2;
        let cut_off = self.random.chance(500);
        self.tell_shutdown(client, timeout, cut_off);
    }

    /// Ends all faults that would go on by themselves.
    pub(crate) fn heal(&mut self) {
        trace!(self, "!! no more faults");
        let soon = self.now + MILLI;
        for node in 0..self.nodes.len() {
            let healed = &mut self.nodes[node];
            healed.errors = 0;
            healed.slow_until = 0;
            if healed.down {
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
            let left = self.plan.half_open_at_last && !self.connections[connection].is_broken();
            if self.connections[connection].is_half_open() && !left {
                self.break_connection(connection, false, Notice::Soon);
            }
        }
    }
}
