//! Nodes that reply with errors, for a while or for good.

use redlock_protocol::Request;

/// How a node replies with errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Sickness {
    #[default]
    Healthy,
    /// Refuses so many of the next requests.
    Loading(u32),
    /// Replies nonsense to so many of the next requests, whether it did what they ask or not.
    Garbling(u32),
    /// Writes nothing: it is a replica now.
    ReadOnly,
    /// The client may not run scripts.
    NotPermitted,
    /// The client may not delete.
    DeletesNothing,
    /// Writes nothing but deletions.
    OutOfMemory,
}

impl Sickness {
    pub(crate) const FOR_GOOD: [Self; 4] = [
        Self::ReadOnly,
        Self::NotPermitted,
        Self::DeletesNothing,
        Self::OutOfMemory,
    ];

    pub(crate) fn is_for_good(self) -> bool {
        Self::FOR_GOOD.contains(&self)
    }

    pub(crate) const fn deletes(self) -> bool {
        !matches!(
            self,
            Self::ReadOnly | Self::NotPermitted | Self::DeletesNothing
        )
    }

    /// What it says instead of doing what it is asked.
    pub(crate) fn refusal(self, request: &Request) -> Option<&'static str> {
        let writes = matches!(
            request,
            Request::Vote(..)
                | Request::ReportLoss { .. }
                | Request::Admit { .. }
                | Request::Stand { .. }
        );
        let deletes = matches!(request, Request::Release { .. });
        let reads = matches!(request, Request::Watch { .. } | Request::Identify);
        match self {
            Self::Healthy | Self::Garbling(_) => None,
            Self::Loading(_) => Some("LOADING"),
            Self::ReadOnly => (writes || deletes).then_some("READONLY"),
            Self::NotPermitted => (!reads).then_some("NOPERM"),
            Self::DeletesNothing => deletes.then_some("NOPERM"),
            Self::OutOfMemory => writes.then_some("OOM"),
        }
    }
}
