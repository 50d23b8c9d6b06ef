//! What is measured: a way to lock and to release.

use crate::workload::{NODES, Workload};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Plain commands; the pauses of the classic client.
    Floor,
    Rslock,
    /// Its lock, of one server.
    Distkit,
    /// Advisory locks of one PostgreSQL server.
    Postgres,
    /// The engine on its own thread; the release is awaited.
    Ours,
    /// The engine on its own thread; a closure, as in an annotated function, which sends the
    /// release and returns.
    OursClosure,
    /// The engine on the caller's runtime; the release is awaited.
    InRuntime,
    /// The engine on the caller's runtime; a closure.
    InRuntimeClosure,
    /// As `Ours`, of two keys.
    TwoKeys,
    /// As `Ours`, kept for a while after its release.
    AtLeast,
    /// As `Ours`, one of three permits.
    Permits,
    /// As `Ours`, in the order of all processes.
    Fair,
    /// As `Ours`, a reader.
    Shared,
    /// As `Ours`, on a thread that blocks.
    Blocking,
}

impl Subject {
    /// Whether `workload` has something to tell about it.
    pub(crate) fn takes_part(self, workload: Workload, nodes: usize) -> bool {
        match self {
            Self::TwoKeys
            | Self::AtLeast
            | Self::Permits
            | Self::Fair
            | Self::Shared
            | Self::Blocking => workload == Workload::Free && nodes == NODES,
            Self::Distkit | Self::Postgres => nodes == NODES && workload.is_for_one_server(),
            Self::Ours | Self::InRuntime => true,
            _ => workload != Workload::Leases,
        }
    }

    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        let mut known = Self::ALL.into_iter();
        known.find(|known| known.name() == name).ok_or_else(|| {
            format!(
                "unknown subject {name}: {}",
                Self::ALL.map(Self::name).join(", ")
            )
        })
    }

    pub(crate) const ALL: [Self; 14] = [
        Self::Floor,
        Self::Rslock,
        Self::Distkit,
        Self::Postgres,
        Self::Ours,
        Self::OursClosure,
        Self::InRuntime,
        Self::InRuntimeClosure,
        Self::TwoKeys,
        Self::AtLeast,
        Self::Permits,
        Self::Fair,
        Self::Shared,
        Self::Blocking,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Rslock => "rslock",
            Self::Distkit => "distkit",
            Self::Postgres => "postgres",
            Self::Ours => "ours",
            Self::OursClosure => "ours-closure",
            Self::InRuntime => "in-runtime",
            Self::InRuntimeClosure => "in-runtime-closure",
            Self::TwoKeys => "two-keys",
            Self::AtLeast => "at-least",
            Self::Permits => "permits",
            Self::Fair => "fair",
            Self::Shared => "shared",
            Self::Blocking => "blocking",
        }
    }

    pub(crate) const fn is_in_runtime(self) -> bool {
        matches!(self, Self::InRuntime | Self::InRuntimeClosure)
    }

    pub(crate) const fn is_closure(self) -> bool {
        matches!(self, Self::OursClosure | Self::InRuntimeClosure)
    }

    /// Whether it is a plain lock of the library, which the targets are about.
    pub(crate) const fn is_plain(self) -> bool {
        matches!(self, Self::Ours | Self::OursClosure) || self.is_in_runtime()
    }
}
