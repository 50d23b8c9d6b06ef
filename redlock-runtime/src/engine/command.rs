//! What callers ask of the engine.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use redlock_protocol::{Event, LockParams, Loss, Release, SectionId, ShutdownError, Verdict};
use tokio::sync::oneshot;

use crate::status::Status;

/// What to call after a shutdown, with what is left.
pub(super) type Shutdown = Box<dyn FnOnce(ShutdownError) + Send>;

/// Who asks for a longer lease, and what came of it.
pub(super) type Extending = oneshot::Sender<Result<(), Vec<Verdict>>>;

/// One question, and where the answer goes.
pub(super) enum Command {
    Acquire {
        params: LockParams,
        caller: Caller,
    },
    /// What a section that is held asks for.
    Renew {
        section: SectionId,
        event: Event,
        answer: Extending,
    },
    /// What nobody waits for.
    Tell(Event),
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
        event: Event,
        done: Shutdown,
    },
}

/// Who has asked for a lock, and is told what becomes of its lease: with the end of this that nothing more is
/// heard of it. So however the engine ends, by shutdown, by a panic, or because its runtime was dropped, no
/// holder goes on believing in a lease that is not watched.
pub(super) struct Caller(pub(super) Arc<Status>);

impl Drop for Caller {
    fn drop(&mut self) {
        if !self.0.is_released() {
            // A waker that panics keeps no other caller from hearing of it.
            let end = || self.0.end(Loss::Stopped);
            let _ = catch_unwind(AssertUnwindSafe(end));
        }
    }
}

impl Command {
    /// A caller waits for what comes of it.
    pub(super) const fn is_awaited(&self) -> bool {
        !matches!(self, Self::End { answer: None, .. } | Self::Tell(_))
    }
}
