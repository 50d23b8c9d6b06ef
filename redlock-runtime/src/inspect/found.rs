//! What operators learn of a lock.

use std::{sync::Arc, time::Duration};

use redlock_protocol::Why;

use crate::node::ClientProcess;

/// What [`Redlock::inspect`](crate::Redlock::inspect) has found. `Display` writes it for people, on several
/// lines.
///
/// It is a picture of a moment, and each node was asked at a moment of its own: a lock that changes hands
/// meanwhile may appear with two holders, each on some of the nodes.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The key as it stands on the nodes, with the [prefix](crate::Builder::key_prefix).
    pub key: Arc<str>,
    /// The nodes, in the order of configuration.
    pub nodes: Vec<InspectedNode>,
    /// The values of the key. Those on most nodes come first.
    ///
    /// Several if the lock is [shared](crate::Lock::shared) or has [permits](crate::Lock::permits). Several
    /// with one that has [no majority](Holder::has_majority) if processes ask for the lock at this moment,
    /// or if an attempt was released and a node was not reached.
    pub holders: Vec<Holder>,
    /// The processes that wait for the lock, as far as the nodes know them; those first that have waited for the
    /// longest time. Of each process one caller is known, and of the process that has the lock none: see
    /// [`sections`](Self::sections).
    pub waiters: Vec<RemoteWaiter>,
    /// The sections of this process that hold the lock or wait for it, in the order of asking. Sections of other
    /// processes are known to those alone.
    pub sections: Vec<LocalSection>,
}

/// A node that was asked about a lock.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct InspectedNode {
    /// The node's address, without user and password.
    pub address: Arc<str>,
    /// Why this node reported nothing: it could not be reached in time, or does not let the user read the key.
    pub problem: Option<Why>,
    /// Why the node does not list the connected processes, such as a user without the right `+client|list`.
    pub hides_clients: Option<Why>,
}

/// What stands under the key of a lock on one node or several.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Holder {
    /// What kind of client writes such a value.
    pub kind: HolderKind,
    /// The owner's id, or what another program has written, up to 200 characters of it.
    pub owner: String,
    /// The [value](crate::Lock::value) of the lock, if its holder has given it one.
    pub value: Option<String>,
    /// The number of the [permit](crate::Lock::permits), from 0 on.
    pub permit: Option<u32>,
    /// The process whose owner it is. `None` if no connection of it was found: the process is gone or has lost its
    /// connections, its user may not name them (`+client|setname`), the nodes do not
    /// [list](InspectedNode::hides_clients) them, or another library has written the value.
    pub process: Option<ClientProcess>,
    /// The addresses of the nodes on which it stands, and for how much longer if nothing is done; `None` if it never
    /// expires.
    pub nodes: Vec<(Arc<str>, Option<Duration>)>,
    /// Whether a majority of all nodes has it, as far as they replied. If not, and all did, it holds nothing, and only
    /// stands in the way.
    pub has_majority: bool,
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

/// A process that waits for a lock, as the nodes know it.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct RemoteWaiter {
    /// The text with which each value of the process begins.
    pub id: String,
    /// The process, if a connection of it was found.
    pub process: Option<ClientProcess>,
    /// How long the process has waited.
    pub waited: Duration,
    /// Whether the process asks for the lock in [shared](crate::Lock::shared) mode.
    pub is_shared: bool,
}

/// A section of this process that holds a lock or waits for it.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct LocalSection {
    /// The name of the section, if it is an annotated function.
    pub name: Option<&'static str>,
    /// Whether the section holds the lock in [shared](crate::Lock::shared) mode, or asks for it so.
    pub is_shared: bool,
    /// Whether the section waits for the lock, or for the other keys of a lock on several.
    pub waits: bool,
    /// How long ago the section asked for the lock.
    pub asked: Duration,
    /// How long the lease still lasts; zero if the section waits, or if the lease is over and the lock not yet
    /// released.
    pub remaining: Duration,
}

impl Inspection {
    /// Returns true if a majority of nodes has one of the [holders](Self::holders). If nodes have a
    /// [problem](InspectedNode::problem), the lock can be held although this is false.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.holders.iter().any(|holder| holder.has_majority)
    }
}

impl Holder {
    /// Returns when it is gone from all nodes if nothing is done; `None` if it never expires. A holder that works
    /// renews it.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        let mut remaining = self.nodes.iter().map(|(_, remaining)| *remaining);
        remaining.try_fold(Duration::ZERO, |most, one| Some(most.max(one?)))
    }
}
