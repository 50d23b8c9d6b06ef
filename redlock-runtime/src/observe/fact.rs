//! What is reported, and of whom.

use redlock_protocol::{Instant, Loss};

use crate::{error::LockError, status::Status};

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

impl End {
    /// What has ended a lease under its holder.
    pub(super) fn of_lease(status: &Status, now: Instant) -> Option<Self> {
        match status.loss() {
            Some(loss) => Some(loss.into()),
            None => (!status.is_held(now)).then_some(Self::Expired),
        }
    }

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

impl From<&LockError> for End {
    fn from(error: &LockError) -> Self {
        match error {
            LockError::Contended(_) => Self::Contended,
            LockError::NoQuorum(_) => Self::NoQuorum,
            LockError::Quarantined(_) => Self::Quarantined,
            LockError::Lost(_) | LockError::Expired(_) => Self::Expired,
            _ => Self::Stopped,
        }
    }
}
