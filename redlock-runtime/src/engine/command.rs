//! What callers ask of the engine.

use std::{fmt, sync::Arc, time::Duration};

use redlock_protocol::{LockParams, Release, SectionId, ShutdownError};
use tokio::sync::oneshot;

use super::{
    delivery::{Acquiring, Extending},
    status::{Seen, Status},
};

/// What is locked.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    One(Arc<str>),
    /// All or none.
    All(Arc<[Arc<str>]>),
    /// One of so many permits.
    Permit(Arc<str>, u32),
}

impl Keys {
    pub(crate) fn as_slice(&self) -> &[Arc<str>] {
        match self {
            Self::One(key) | Self::Permit(key, _) => std::slice::from_ref(key),
            Self::All(keys) => keys,
        }
    }

    /// Who has the others needs none of these: no key is beside them. One of many permits is none of
    /// fewer.
    pub(crate) fn are_within(&self, others: &Self) -> bool {
        match (self, others) {
            (Self::Permit(key, permits), Self::Permit(other, of)) => key == other && of <= permits,
            (Self::Permit(..), _) | (_, Self::Permit(..)) => false,
            _ => {
                let mut keys = self.as_slice().iter();
                keys.all(|key| others.as_slice().contains(key))
            }
        }
    }

    /// One of them is among these.
    pub(crate) fn meet(&self, others: &Self) -> bool {
        let mut keys = self.as_slice().iter();
        keys.any(|key| others.as_slice().contains(key))
    }
}

/// Who is told what is left after a shutdown.
pub(super) type Shutdown = Box<dyn FnOnce(ShutdownError) + Send>;

/// One question, and where the answer goes.
pub(super) enum Command {
    Acquire {
        section: SectionId,
        /// At least one.
        keys: Keys,
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
    /// Somebody waits for what comes of it.
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
