//! What is measured: a way to lock and to release.

use crate::{
    kinds,
    workload::{NODES, Workload},
};

kinds! {
    Subject {
        /// Plain commands; the pauses of the classic client.
        Floor = "floor",
        Rslock = "rslock",
        /// Its lock, of one server.
        Distkit = "distkit",
        /// Advisory locks of one PostgreSQL server.
        Postgres = "postgres",
        /// The release is awaited.
        Ours = "ours",
        /// A closure, as in an annotated function, which sends the release and returns.
        OursClosure = "ours-closure",
        /// As `Ours`, of two keys.
        TwoKeys = "two-keys",
        /// As `Ours`, kept for a while after its release.
        AtLeast = "at-least",
        /// As `Ours`, one of three permits.
        Permits = "permits",
        /// As `Ours`, in the order of all processes.
        Fair = "fair",
        /// As `Ours`, a reader.
        Shared = "shared",
        /// As `Ours`, on a thread that blocks.
        Blocking = "blocking",
    }
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
            Self::Ours => true,
            _ => workload != Workload::Leases,
        }
    }

    pub(crate) const fn is_closure(self) -> bool {
        matches!(self, Self::OursClosure)
    }

    /// Whether it is a plain lock of the library, which the targets are about.
    pub(crate) const fn is_plain(self) -> bool {
        matches!(self, Self::Ours | Self::OursClosure)
    }
}
