//! What callers ask of the engine.

use std::{fmt, sync::Arc, time::Duration};

use redlock_protocol::{LockParams, Release, SectionId, ShutdownError};
use tokio::sync::oneshot;

use super::{
    delivery::{Acquiring, Extending},
    status::{Seen, Status},
};

/// What to call after a shutdown, with what is left.
pub(super) type Shutdown = Box<dyn FnOnce(ShutdownError) + Send>;

/// One question, and where the answer goes.
pub(super) enum Command {
    Acquire {
        params: LockParams,
        status: Arc<Status>,
        answer: Acquiring,
    },
    Extend {
        section: SectionId,
        answer: Extending,
    },
    End {
        section: SectionId,
        answer: Option<oneshot::Sender<Release>>,
    },
    /// Which sections have a lock here, or wait for it.
    Look {
        key: Arc<str>,
        answer: oneshot::Sender<Vec<Seen>>,
    },
    Shutdown {
        timeout: Duration,
        abort_holders: bool,
        done: Shutdown,
    },
}

/// The engine is gone: shut down, its runtime dropped, or left behind by a fork.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopped;

impl Command {
    /// A caller waits for what comes of it.
    pub(super) const fn is_awaited(&self) -> bool {
        !matches!(self, Self::End { answer: None, .. })
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Acquire { .. } => "Acquire",
            Self::Extend { .. } => "Extend",
            Self::End { .. } => "End",
            Self::Look { .. } => "Look",
            Self::Shutdown { .. } => "Shutdown",
        })
    }
}
