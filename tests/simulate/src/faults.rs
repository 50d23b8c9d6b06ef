//! The kinds of faults, and how often they mattered.

use crate::{kinds, world::World};

kinds! {
    /// A kind of fault.
    Fault {
        // Struck by `World::strike`.
        ConnectionBroken = "connection_broken",
        HalfOpen = "half_open",
        Partition = "partition",
        NodeSilent = "node_silent",
        NodeSlow = "node_slow",
        NodeCrash = "node_crash",
        /// All is forgotten, of one node or of several at once.
        EmptyRestart = "empty_restart",
        /// All since the last copy on disk is forgotten.
        SnapshotRestart = "snapshot_restart",
        /// A replica takes the place of a node under its address, with old data; or a node with old data
        /// says from now on that it forgets nothing.
        Promoted = "promoted",
        Flushed = "flushed",
        ClientPaused = "client_paused",
        ClientClockStep = "client_clock_step",
        NodeClockStep = "node_clock_step",
        ClientKilled = "client_killed",
        EngineShutDown = "engine_shut_down",
        ScriptsFlushed = "scripts_flushed",
        ErrorReplies = "error_replies",
        /// A node that replies with errors until the end.
        ErrorsForGood = "errors_for_good",
        /// One node's counter is far ahead, or not plausible.
        CounterPoisoned = "counter_poisoned",
        // What the network and the callers do all the time.
        MessageLate = "message_late",
        RequestLost = "request_lost",
        ReplyLost = "reply_lost",
        Overtaken = "overtaken",
        StaleNews = "stale_news",
        CallerCancelled = "caller_cancelled",
    }
}

impl Fault {
    /// Those that are struck.
    pub(crate) fn struck() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().take(Self::MessageLate as usize)
    }

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
