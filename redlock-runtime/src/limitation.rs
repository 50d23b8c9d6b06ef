//! What a node cannot do, although it may vote.

use std::fmt;

/// What a server's user may not do, or the server cannot, and what is lost with it. The node votes all the
/// same. [`guide::servers`](crate::guide::servers#what-is-lost-without-a-command) has the rights.
///
/// ```
/// use redlock_runtime::{Limitation, Redlock};
///
/// fn alarms(redlock: &Redlock) -> Vec<String> {
///     let nodes = redlock.nodes();
///     let is_alarming = |node: &&redlock_runtime::NodeStatus| {
///         node.limitations().contains(&Limitation::RestartsUnseen)
///     };
///     let alarming = nodes.iter().filter(is_alarming);
///     alarming.map(|node| node.address().to_owned()).collect()
/// }
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limitation {
    /// `INFO` is refused. Not detected are a restart with old data, a second URL of the same server, and
    /// eviction: such a server must have no persistence, one URL, and the policy `noeviction`.
    RestartsUnseen,
    /// `CONFIG GET` is refused, so it is not known whether the server writes each lock to disk: it is
    /// quarantined after each restart.
    DurabilityUnknown,
    /// `CLIENT TRACKING` is refused. A holder learns of a loss at its next renewal or extension,
    /// or without either not before its deadline, and waiting processes have to ask again and again.
    NoNotices,
}

/// Written without a subject: "does not allow `INFO`, so ...".
impl fmt::Display for Limitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RestartsUnseen => {
                "does not allow `INFO`, so a restart with old data, a second URL of the same server, and \
                 eviction are not detected"
            }
            Self::DurabilityUnknown => {
                "does not allow `CONFIG GET`, so it is quarantined after each restart"
            }
            Self::NoNotices => {
                "does not allow `CLIENT TRACKING`, so losses are noticed late"
            }
        })
    }
}
