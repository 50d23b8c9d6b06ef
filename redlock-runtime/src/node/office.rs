//! Who decides which server is a node, and what they decide: see [`electors`](super::electors).

use std::{fmt, sync::Mutex};

use redis::ConnectionAddr;
use redlock_protocol::Instant;

use super::{address::address_text, login::Credentials};

/// Those who decide which server is the node.
#[derive(Debug)]
pub(crate) struct Electors {
    /// Where some of them are, if not all.
    pub(super) seeds: Vec<ConnectionAddr>,
    pub(super) office: Office,
    /// Their own, if not that of the node.
    pub(super) login: Option<Credentials>,
    /// The master that a majority named last, and since when.
    pub(super) named: Mutex<Option<(Master, Instant)>>,
}

/// What they decide about.
#[derive(Clone, Debug)]
pub(crate) enum Office {
    /// Which server is the master that Sentinels know by this name.
    Master(String),
    /// Which server of a cluster owns this slot.
    Slot(u16),
}

/// A server in one term of office.
#[derive(Clone, Debug)]
pub(super) struct Master {
    /// Where it is. One server can have several addresses.
    pub(super) address: ConnectionAddr,
    /// What it is known by: its address to Sentinels, its id in a cluster.
    pub(super) name: String,
    pub(super) epoch: u64,
}

impl Electors {
    pub(crate) const fn sentinels(
        seeds: Vec<ConnectionAddr>,
        name: String,
        login: Option<Credentials>,
    ) -> Self {
        Self {
            seeds,
            office: Office::Master(name),
            login,
            named: Mutex::new(None),
        }
    }

    pub(crate) const fn cluster(seeds: Vec<ConnectionAddr>, slot: u16) -> Self {
        Self {
            seeds,
            office: Office::Slot(slot),
            login: None,
            named: Mutex::new(None),
        }
    }
}

impl Office {
    /// What those are called who decide.
    pub(super) const fn electors(&self) -> &'static str {
        match self {
            Self::Master(_) => "sentinels",
            Self::Slot(_) => "servers of the cluster",
        }
    }

    /// What one of them is called.
    pub(super) const fn elector(&self) -> &'static str {
        match self {
            Self::Master(_) => "sentinel",
            Self::Slot(_) => "server of the cluster",
        }
    }
}

impl fmt::Display for Office {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Master(name) => write!(f, "master `{name}`"),
            Self::Slot(slot) => write!(f, "owner of slot {slot}"),
        }
    }
}

/// The same server in the same term.
impl PartialEq for Master {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.epoch) == (&other.name, other.epoch)
    }
}

impl fmt::Display for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&address_text(&self.address))
    }
}
