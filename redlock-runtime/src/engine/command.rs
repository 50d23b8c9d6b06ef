//! What callers ask of the engine.

use std::{fmt, sync::Arc, time::Duration};

use tokio::sync::oneshot;

use super::status::Status;
use crate::protocol::{Drained, LeaseId, Outcome, Refusal, Terms, Vote};

/// One question, and where the answer goes.
pub(super) enum Command {
    Acquire {
        lease: LeaseId,
        key: Arc<str>,
        terms: Terms,
        status: Arc<Status>,
        answer: oneshot::Sender<Result<(), Refusal>>,
    },
    Extend {
        lease: LeaseId,
        answer: oneshot::Sender<Result<(), Vec<Vote>>>,
    },
    End {
        lease: LeaseId,
        answer: Option<oneshot::Sender<Outcome>>,
    },
    Shutdown {
        timeout: Duration,
        cut_off: bool,
        done: Box<dyn FnOnce(Drained) + Send>,
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
