//! What is measured: a way to lock, in a kind of runtime.

use std::fmt;

use crate::workload::{NODES, Workload};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) way: Way,
    pub(crate) runtime: Kind,
}

/// A way to lock and to release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Plain commands; the pauses of the classic client.
    Floor,
    /// Plain commands; pauses as short as a section.
    FloorTuned,
    Rslock,
    /// With pauses as short as a section.
    RslockTuned,
    /// The engine on its own thread; the release is awaited.
    Ours,
    /// The engine on its own thread; a closure, as in an annotated function, which sends the
    /// release and returns.
    OursClosure,
    /// The engine on the caller's runtime; the release is awaited.
    InRuntime,
    /// The engine on the caller's runtime; a closure.
    InRuntimeClosure,
    /// As `OursClosure`, with an engine for each half of the workers.
    TwoEngines,
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

/// A kind of runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    MultiThread,
    CurrentThread,
}

impl Subject {
    /// All that is measured unless told otherwise: a runtime of one thread is for who asks.
    pub(crate) fn all() -> Vec<Self> {
        let ways = Way::ALL.into_iter();
        ways.map(|way| Self::new(way, Kind::MultiThread)).collect()
    }

    /// Whether `workload` has something to tell about it.
    pub(crate) fn takes_part(self, workload: Workload, nodes: usize) -> bool {
        match self.way {
            // Pauses make a difference only if there is another holder to wait for.
            Way::FloorTuned | Way::RslockTuned => workload.is_contended(),
            Way::TwoEngines => workload == Workload::Many && nodes == NODES,
            Way::TwoKeys
            | Way::AtLeast
            | Way::Permits
            | Way::Fair
            | Way::Shared
            | Way::Blocking => workload == Workload::Free && nodes == NODES,
            Way::Ours | Way::InRuntime => true,
            _ => workload != Workload::Leases,
        }
    }

    pub(crate) const fn new(way: Way, runtime: Kind) -> Self {
        Self { way, runtime }
    }

    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        let (way, runtime) = match name.strip_suffix(CURRENT_THREAD) {
            Some(way) => (way, Kind::CurrentThread),
            None => (name, Kind::MultiThread),
        };
        Way::ALL
            .into_iter()
            .find(|known| known.name() == way)
            .map(|way| Self::new(way, runtime))
            .ok_or_else(|| {
                let names = Way::ALL.map(Way::name).join(", ");
                format!("unknown subject {name}: {names}, each also with {CURRENT_THREAD}")
            })
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.runtime {
            Kind::MultiThread => "",
            Kind::CurrentThread => CURRENT_THREAD,
        };
        f.pad(&format!("{}{suffix}", self.way.name()))
    }
}

impl Way {
    pub(crate) const ALL: [Self; 15] = [
        Self::Floor,
        Self::FloorTuned,
        Self::Rslock,
        Self::RslockTuned,
        Self::Ours,
        Self::OursClosure,
        Self::InRuntime,
        Self::InRuntimeClosure,
        Self::TwoEngines,
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
            Self::FloorTuned => "floor-tuned",
            Self::Rslock => "rslock",
            Self::RslockTuned => "rslock-tuned",
            Self::Ours => "ours",
            Self::OursClosure => "ours-closure",
            Self::InRuntime => "in-runtime",
            Self::InRuntimeClosure => "in-runtime-closure",
            Self::TwoEngines => "two-engines",
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
        matches!(
            self,
            Self::OursClosure | Self::InRuntimeClosure | Self::TwoEngines
        )
    }

    pub(crate) const fn engines(self) -> usize {
        match self {
            Self::TwoEngines => 2,
            _ => 1,
        }
    }

    /// Whether it is a plain lock of the library, which the targets are about.
    pub(crate) const fn is_plain(self) -> bool {
        matches!(self, Self::Ours | Self::OursClosure) || self.is_in_runtime()
    }

    pub(crate) const fn is_other_library(self) -> bool {
        matches!(
            self,
            Self::Floor | Self::FloorTuned | Self::Rslock | Self::RslockTuned
        )
    }
}

const CURRENT_THREAD: &str = "@ct";
