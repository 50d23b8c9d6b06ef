//! The kinds of faults, and how often they mattered.

use crate::world::World;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    // Struck by `World::strike`.
    ConnectionBroken,
    HalfOpen,
    Partition,
    NodeSilent,
    NodeSlow,
    NodeCrash,
    /// All is forgotten, of one node or of several at once.
    EmptyRestart,
    /// All since the last copy on disk is forgotten.
    SnapshotRestart,
    /// A replica takes the place of a node under its address, with old data; or a node with old data
    /// says from now on that it forgets nothing.
    Promoted,
    Flushed,
    ClientPaused,
    ClientClockStep,
    NodeClockStep,
    ClientKilled,
    EngineShutDown,
    ScriptsFlushed,
    ErrorReplies,
    /// A node that replies with errors until the end.
    ErrorsForGood,
    /// One node's counter is far ahead, or not plausible.
    CounterPoisoned,
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

impl Fault {
    pub(crate) const STRUCK: [Self; 19] = [
        Self::ConnectionBroken,
        Self::HalfOpen,
        Self::Partition,
        Self::NodeSilent,
        Self::NodeSlow,
        Self::NodeCrash,
        Self::EmptyRestart,
        Self::SnapshotRestart,
        Self::Promoted,
        Self::Flushed,
        Self::ClientPaused,
        Self::ClientClockStep,
        Self::NodeClockStep,
        Self::ClientKilled,
        Self::EngineShutDown,
        Self::ScriptsFlushed,
        Self::ErrorReplies,
        Self::ErrorsForGood,
        Self::CounterPoisoned,
    ];

    pub(crate) const NAMES: [&str; 26] = [
        "connection_broken",
        "half_open",
        "partition",
        "node_silent",
        "node_slow",
        "node_crash",
        "empty_restart",
        "snapshot_restart",
        "promoted",
        "flushed",
        "client_paused",
        "client_clock_step",
        "node_clock_step",
        "client_killed",
        "engine_shut_down",
        "scripts_flushed",
        "error_replies",
        "errors_for_good",
        "counter_poisoned",
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
        self.forgets_some() || matches!(self, Self::EmptyRestart | Self::Flushed)
    }

    /// What is left is an old copy.
    pub(crate) const fn forgets_some(self) -> bool {
        matches!(self, Self::SnapshotRestart | Self::Promoted)
    }
}

impl World {
    /// Counts a fault if a lock was held or being acquired when it hit.
    pub(crate) fn hit(&mut self, fault: Fault, client: Option<usize>) {
        let mattered = match client {
            Some(client) => self.clients[client].is_busy(),
            None => self.clients.iter().any(crate::client::Client::is_busy),
        };
        if mattered {
            self.tally.faults[fault as usize] += 1;
        }
    }
}
