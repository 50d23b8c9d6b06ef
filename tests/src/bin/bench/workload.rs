//! What is done with locks.

use std::time::Duration;

use crate::kinds;

/// The node set that most is asked about.
pub(crate) const NODES: usize = 5;

kinds! {
    Workload {
        /// One worker, free keys.
        Free = "W1",
        /// The same with a pause before each cycle.
        FreePaced = "W1-paced",
        /// The same while servers confirm what is on their disks.
        FreePersistent = "W1-always",
        /// The same while one node is dead.
        FreeOneDead = "W1-dead",
        /// The same while one node is connected and does not answer.
        FreeOneSilent = "W1-silent",
        /// The same over a network that takes its time.
        FreeDelayed = "W1-delay",
        /// Many workers, free keys.
        Many = "W2",
        /// Many workers of one process, one key, nothing done under it.
        OneKey = "W3",
        /// Workers of several processes, one key, held for a while.
        Processes = "W4",
        /// The same with twice as many processes.
        ManyProcesses = "W4-8",
        /// As many locks as one process may ever hold, all renewed, and as many callers that wait.
        Leases = "W5",
    }
}

impl Workload {
    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::Free => "one worker, free keys",
            Self::FreePaced => "one worker, free keys, 3 ms before each cycle",
            Self::FreePersistent => "one worker, free keys, servers with `appendfsync always`",
            Self::FreeOneDead => "one worker, free keys, one node killed",
            Self::FreeOneSilent => "one worker, free keys, one node connected and silent",
            Self::FreeDelayed => "one worker, free keys, 1 ms to the nodes and 1 ms back",
            Self::Many => "64 workers, free keys",
            Self::OneKey => "16 workers of one process, one key, no hold time",
            Self::Processes => "4 processes of 8 workers, one key, held for 1 ms",
            Self::ManyProcesses => "8 processes of 8 workers, one key, held for 1 ms",
            Self::Leases => "leases of 30 s that are renewed, and as many waiters",
        }
    }

    pub(crate) const fn processes(self) -> usize {
        match self {
            Self::Processes => 4,
            Self::ManyProcesses => 8,
            _ => 1,
        }
    }

    /// In each process.
    pub(crate) const fn workers(self) -> usize {
        match self {
            Self::Many => 64,
            Self::OneKey => 16,
            Self::Processes | Self::ManyProcesses => 8,
            _ => 1,
        }
    }

    pub(crate) const fn hold(self) -> Duration {
        match self {
            Self::Processes | Self::ManyProcesses => Duration::from_millis(1),
            _ => Duration::ZERO,
        }
    }

    /// Before each cycle, so that it finds processors and servers that have done something else.
    pub(crate) const fn pause(self) -> Duration {
        match self {
            Self::FreePaced => Duration::from_millis(3),
            _ => Duration::ZERO,
        }
    }

    /// Whether it has no servers that fail, are far away, or write what a database would not.
    pub(crate) const fn is_for_one_server(self) -> bool {
        matches!(self, Self::Free | Self::FreePaced | Self::Many) || self.is_contended()
    }

    /// Whether all want the same key.
    pub(crate) const fn is_contended(self) -> bool {
        matches!(self, Self::OneKey | Self::Processes | Self::ManyProcesses)
    }

    /// Whether a majority is left on `nodes` nodes.
    pub(crate) const fn is_possible(self, nodes: usize) -> bool {
        !matches!(self, Self::FreeOneDead | Self::FreeOneSilent) || nodes >= 3
    }

    /// Whether it is measured on `nodes` nodes unless told otherwise: the number of nodes changes what
    /// one lock costs, and nothing else.
    pub(crate) const fn is_usual(self, nodes: usize) -> bool {
        nodes == NODES || matches!(self, Self::Free | Self::Many)
    }
}
