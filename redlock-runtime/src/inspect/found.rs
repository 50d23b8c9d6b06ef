//! What operators learn of a lock.

use std::{sync::Arc, time::Duration};

use redlock_protocol::Why;

use crate::node::ClientName;

/// What [`Redlock::inspect`](crate::Redlock::inspect) has found. `Display` writes it for people, on several
/// lines.
///
/// It is a picture of a moment, and each node was asked at a moment of its own: a lock that changes hands
/// meanwhile may appear with two holders, each on some of the nodes.
#[derive(Clone, Debug)]
pub struct Inspection {
    pub(super) key: Arc<str>,
    pub(super) nodes: Vec<InspectedNode>,
    pub(super) holders: Vec<Holder>,
    pub(super) waiters: Vec<RemoteWaiter>,
    pub(super) sections: Vec<LocalSection>,
}

/// A node that was asked about a lock.
#[derive(Clone, Debug)]
pub struct InspectedNode {
    pub(super) address: Arc<str>,
    pub(super) problem: Option<Why>,
    pub(super) hides_clients: Option<Why>,
}

/// What stands under the key of a lock on one node or several.
#[derive(Clone, Debug)]
pub struct Holder {
    pub(super) kind: HolderKind,
    pub(super) owner: String,
    pub(super) value: Option<String>,
    pub(super) permit: Option<u32>,
    pub(super) process: Option<ClientProcess>,
    pub(super) nodes: Vec<(Arc<str>, Option<Duration>)>,
    pub(super) has_majority: bool,
}

/// Who writes such a value.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderKind {
    /// A client of this library, which has the lock alone. Another library's client if it writes values of
    /// the same form: then it has no [process](Holder::process).
    Exclusive,
    /// A client of this library that [shares](crate::Lock::shared) the lock.
    Shared,
    /// Another library, or another program: the value is none that this library writes.
    Foreign,
}

/// A process that uses this library, as its connections are named on the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientProcess {
    pub(super) name: ClientName,
    pub(super) address: Option<String>,
    pub(super) connected: Option<Duration>,
    pub(super) is_this: bool,
}

/// A process that waits for a lock, as the nodes know it.
#[derive(Clone, Debug)]
pub struct RemoteWaiter {
    pub(super) id: String,
    pub(super) process: Option<ClientProcess>,
    pub(super) waited: Duration,
    pub(super) is_shared: bool,
}

/// A section of this process that holds a lock or waits for it.
#[derive(Clone, Debug)]
pub struct LocalSection {
    pub(super) name: Option<&'static str>,
    pub(super) is_shared: bool,
    pub(super) waits: bool,
    pub(super) asked: Duration,
    pub(super) remaining: Duration,
}

impl Inspection {
    /// Returns the key as it stands on the nodes, with the [prefix](crate::Builder::key_prefix).
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the nodes, in the order of configuration.
    #[must_use]
    pub fn nodes(&self) -> &[InspectedNode] {
        &self.nodes
    }

    /// Returns the values of the key. Those on most nodes come first.
    ///
    /// Several if the lock is [shared](crate::Lock::shared) or has [permits](crate::Lock::permits). Several
    /// with one that has [no majority](Holder::has_majority) if processes ask for the lock at this moment,
    /// or if an attempt was released and a node was not reached.
    #[must_use]
    pub fn holders(&self) -> &[Holder] {
        &self.holders
    }

    /// Returns true if a majority of nodes has one of the [holders](Self::holders). If nodes have a
    /// [problem](InspectedNode::problem), the lock can be held although this is false.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.holders.iter().any(Holder::has_majority)
    }

    /// Returns the processes that wait for the lock, as far as the nodes know them; those first that have waited for
    /// the longest time. Of each process one caller is known, and of the process that has the lock none: see
    /// [`sections`](Self::sections).
    #[must_use]
    pub fn waiters(&self) -> &[RemoteWaiter] {
        &self.waiters
    }

    /// Returns the sections of this process that hold the lock or wait for it, in the order of asking. Sections of
    /// other processes are known to those alone.
    #[must_use]
    pub fn sections(&self) -> &[LocalSection] {
        &self.sections
    }
}

impl InspectedNode {
    /// Returns the node's address, without user and password.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns why this node reported nothing: it could not be reached in time, or does not let the user read the key.
    #[must_use]
    pub const fn problem(&self) -> Option<&Why> {
        self.problem.as_ref()
    }

    /// Returns why the node does not list the connected processes, such as a user without the right `+client|list`.
    #[must_use]
    pub const fn hides_clients(&self) -> Option<&Why> {
        self.hides_clients.as_ref()
    }
}

impl Holder {
    /// Returns what kind of client writes such a value.
    #[must_use]
    pub const fn kind(&self) -> HolderKind {
        self.kind
    }

    /// Returns the owner's id, or what another program has written, up to 200 characters of it.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Returns the [value](crate::Lock::value) of the lock, if its holder has given it one.
    #[must_use]
    pub fn value(&self) -> Option<&str> {
        self.value.as_deref()
    }

    /// Returns the number of the [permit](crate::Lock::permits), from 0 on.
    #[must_use]
    pub const fn permit(&self) -> Option<u32> {
        self.permit
    }

    /// Returns the process whose owner it is. `None` if no connection of it was found: the process is gone or has lost
    /// its connections, its user may not name them (`+client|setname`), the nodes do not
    /// [list](InspectedNode::hides_clients) them, or another library has written the value.
    #[must_use]
    pub const fn process(&self) -> Option<&ClientProcess> {
        self.process.as_ref()
    }

    /// Returns the addresses of the nodes on which it stands, and for how much longer if nothing is done; `None` if it
    /// never expires.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, Option<Duration>)> {
        let nodes = self.nodes.iter();
        nodes.map(|(address, remaining)| (&**address, *remaining))
    }

    /// Returns whether a majority of all nodes has it, as far as they replied. If not, and all did, it holds nothing,
    /// and only stands in the way.
    #[must_use]
    pub const fn has_majority(&self) -> bool {
        self.has_majority
    }

    /// Returns when it is gone from all nodes if nothing is done; `None` if it never expires. A holder that works
    /// renews it.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        let mut remaining = self.nodes.iter().map(|(_, remaining)| *remaining);
        remaining.try_fold(Duration::ZERO, |most, one| Some(most.max(one?)))
    }
}

impl ClientProcess {
    /// Returns the text with which each value of this process begins.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.name.process
    }

    /// Returns the process's [service](crate::Builder::service).
    #[must_use]
    pub fn service(&self) -> &str {
        &self.name.service
    }

    /// Returns the name of the machine or container that the process runs on.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.name.host
    }

    /// Returns the process id on that host.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.name.pid
    }

    /// Returns the address from which the process is connected, as one of the nodes sees it.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// Returns how long the oldest connection of the process has lasted, in whole seconds. The process has held no lock
    /// for longer, unless all its connections broke meanwhile. The nodes do not record when a lock was acquired.
    #[must_use]
    pub const fn connected(&self) -> Option<Duration> {
        self.connected
    }

    /// Returns true if this process is the caller's, and uses the same node set.
    #[must_use]
    pub const fn is_this(&self) -> bool {
        self.is_this
    }
}

impl RemoteWaiter {
    /// Returns the text with which each value of the process begins.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the process, if a connection of it was found.
    #[must_use]
    pub const fn process(&self) -> Option<&ClientProcess> {
        self.process.as_ref()
    }

    /// Returns how long the process has waited.
    #[must_use]
    pub const fn waited(&self) -> Duration {
        self.waited
    }

    /// Returns whether the process asks for the lock in [shared](crate::Lock::shared) mode.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.is_shared
    }
}

impl LocalSection {
    /// Returns the name of the section, if it is an annotated function.
    #[must_use]
    pub const fn name(&self) -> Option<&'static str> {
        self.name
    }

    /// Returns whether the section holds the lock in [shared](crate::Lock::shared) mode, or asks for it so.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Returns true if the section waits for the lock, or for the other keys of a lock on several.
    #[must_use]
    pub const fn waits(&self) -> bool {
        self.waits
    }

    /// Returns how long ago the section asked for the lock.
    #[must_use]
    pub const fn asked(&self) -> Duration {
        self.asked
    }

    /// Returns how long the lease still lasts; zero if the section waits, or if the lease is over and the lock not yet
    /// released.
    #[must_use]
    pub const fn remaining(&self) -> Duration {
        self.remaining
    }
}
