//! What is reported, and of whom.

use std::sync::Arc;

use redlock_protocol::{Instant, Loss};

/// What a section is called.
#[derive(Debug, Default)]
pub(crate) struct Subject {
    /// Of the annotated function, if it is one.
    pub(crate) name: Option<&'static str>,
    /// What errors name: the key, or all keys.
    pub(crate) key: Arc<str>,
}

/// What an operator should read of the start of a node set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start {
    Embedded,
    EvenNumber,
    Incomplete,
    Limited,
    Unverified,
    NoQuorum,
    Waiting,
}

/// How the question for a lock, or the section that had it, has ended. In the order of the metrics: first
/// those of questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Granted,
    Contended,
    NoQuorum,
    Quarantined,
    /// The node set was shut down.
    Stopped,
    /// The lease was over, or went by before the caller was polled.
    Expired,
    /// The caller's future was dropped.
    Cancelled,
    Lost,
    Released,
}

/// The end of a section that had the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) at: Instant,
    /// What has ended the lease under its holder before.
    pub(crate) over: Option<End>,
    /// That is not reported yet.
    pub(crate) is_news: bool,
}

impl End {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Contended => "contended",
            Self::NoQuorum => "no_quorum",
            Self::Quarantined => "quarantined",
            Self::Stopped => "stopped",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
            Self::Released => "released",
        }
    }
}

impl From<&Loss> for End {
    fn from(loss: &Loss) -> Self {
        match loss {
            Loss::Lost { .. } => Self::Lost,
            Loss::Expired { .. } => Self::Expired,
            Loss::Stopped => Self::Stopped,
        }
    }
}
