//! What callers ask of the engine.

use std::{fmt, sync::Arc, time::Duration};

use redlock_protocol::{LockParams, Loss, Release, SectionId, ShutdownError};
use tokio::sync::oneshot;

use super::delivery::Extending;
use crate::status::Status;

/// What to call after a shutdown, with what is left.
pub(super) type Shutdown = Box<dyn FnOnce(ShutdownError) + Send>;

/// One question, and where the answer goes.
pub(super) enum Command {
    Acquire {
        params: LockParams,
        caller: Caller,
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
        answer: oneshot::Sender<Vec<Arc<Status>>>,
    },
    Shutdown {
        timeout: Duration,
        abort_holders: bool,
        done: Shutdown,
    },
}

/// Who has asked for a lock, and is told what becomes of its lease: with the last of this that nothing more is
/// heard of it.
#[derive(Debug)]
pub(super) struct Caller(pub(super) Arc<Status>);

impl Drop for Caller {
    fn drop(&mut self) {
        if !self.0.is_released() {
            self.0.end(Loss::Stopped);
        }
    }
}

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
