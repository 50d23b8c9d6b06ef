//! What callers ask of the engine.

use std::{fmt, sync::Arc, time::Duration};

use redlock_protocol::{LockParams, Refusal, Release, SectionId, ShutdownError, Verdict};
use tokio::sync::oneshot;

use super::status::Status;

/// What is locked.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    One(Arc<str>),
    /// All or none.
    All(Vec<Arc<str>>),
}

/// One question, and where the answer goes.
pub(super) enum Command {
    Acquire {
        section: SectionId,
        /// At least one.
        keys: Keys,
        params: LockParams,
        status: Arc<Status>,
        answer: oneshot::Sender<Result<(), Refusal>>,
    },
    Extend {
        section: SectionId,
        answer: oneshot::Sender<Result<(), Vec<Verdict>>>,
    },
    End {
        section: SectionId,
        answer: Option<oneshot::Sender<Release>>,
    },
    Shutdown {
        timeout: Duration,
        abort_holders: bool,
        done: Box<dyn FnOnce(ShutdownError) + Send>,
    },
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Acquire { .. } => "Acquire",
            Self::Extend { .. } => "Extend",
            Self::End { .. } => "End",
            Self::Shutdown { .. } => "Shutdown",
        })
    }
}
