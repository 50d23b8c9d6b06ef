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

/// What came of an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Granted,
    Contended,
    NoQuorum,
    Quarantined,
    Stopped,
    /// The caller was not polled while its lease went by.
    Expired,
    /// Its future was dropped.
    Cancelled,
}

/// How a section that had the lock has let go of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) at: Instant,
    /// The lease was over before.
    pub(crate) over: Option<Over>,
    /// That is not reported yet.
    pub(crate) is_news: bool,
}

/// What has ended a lease under its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Lost,
    Expired,
    Stopped,
}

impl Over {
    pub(crate) const fn of(loss: &Loss) -> Self {
        match loss {
            Loss::Lost { .. } => Self::Lost,
            Loss::Expired { .. } => Self::Expired,
            Loss::Stopped => Self::Stopped,
        }
    }
}

impl Outcome {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Contended => "contended",
            Self::NoQuorum => "no_quorum",
            Self::Quarantined => "quarantined",
            Self::Stopped => "stopped",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Over {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Expired => "expired",
            Self::Stopped => "stopped",
        }
    }
}
