//! A rule which a configuration has broken.

use std::{fmt, path::PathBuf, time::Duration};

use super::{options::PERMITS, section_info::SectionInfo};
use crate::{
    health::{Health, remedy},
    key::shown,
    script::RESERVED,
};

/// The environment variable that names the nodes if the code does not: URLs with commas between
/// them.
pub const NODES_VARIABLE: &str = "REDLOCK_NODES";

/// One mistake in a configuration.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigProblem {
    /// No node was given, neither in code nor by `REDLOCK_NODES`.
    NoNodes,
    /// `REDLOCK_NODES` is set, but names no node: it is empty, or holds only commas and white space.
    NodesVariableEmpty,
    /// `REDLOCK_NODES` is set, but is not valid UTF-8.
    NodesVariableNotUnicode,
    /// A variable that `RedlockConfig::from_env` has found in the environment, which is misspelt or has a value
    /// that does not fit.
    BadVariable {
        /// Its name.
        name: String,
        /// What is wrong with it. Does not quote its value.
        reason: String,
    },
    /// The URL at this index does not name a node.
    BadNode {
        /// Position in the list of nodes, from zero.
        index: usize,
        /// What is wrong with it. Quotes no part of the URL that may be a password.
        reason: String,
    },
    /// What `rediss://` nodes need for TLS cannot be used: a file is missing or is not in PEM form, or a
    /// key does not belong to its certificate.
    BadTls {
        /// The file; `None` for what was given in code, and for the operating system's roots.
        file: Option<PathBuf>,
        /// What is wrong with it. Quotes nothing of it.
        reason: String,
    },
    /// Two nodes of the list have the same address.
    DuplicateNode {
        /// Position of the first one, from zero.
        first: usize,
        /// Position of the second one.
        second: usize,
        /// Their address.
        address: String,
    },
    /// Some nodes are in memory and others are servers. A memory node belongs to one process, so
    /// two processes could each win a majority with a memory node of their own, and both hold one
    /// lock.
    MixedNodes {
        /// The first node in memory.
        memory: String,
        /// The address of the first server.
        server: String,
    },
    /// A node is in memory, and [`Builder::require_servers`](crate::Builder::require_servers) allows
    /// only servers.
    ServersRequired {
        /// The first node in memory.
        memory: String,
    },
    /// Two different addresses lead to the same server, which must not vote twice.
    SameServer {
        /// One address of the server.
        first: String,
        /// Another address of the server.
        second: String,
    },
    /// A server refuses access, and without all such servers no majority is left. There is one problem
    /// for each of them.
    AccessDenied {
        /// The server's address.
        address: String,
        /// The server's error message.
        message: String,
    },
    /// A server may delete locks when memory runs out, and without all such servers no majority is
    /// left. There is one problem for each of them.
    EvictingNode {
        /// The server's address.
        address: String,
        /// Its `maxmemory-policy`.
        policy: String,
    },
    /// Other processes use a server with another `max_lease` or guard band, and without all such
    /// servers no majority is left. There is one problem for each of them.
    OtherMaxLease {
        /// The server's address.
        address: String,
        /// How long keys of the other processes may live.
        theirs: Duration,
        /// How long keys of this process may live.
        ours: Duration,
    },
    /// No majority of nodes votes, and waiting alone does not change that; see
    /// [`Builder::require_quorum`](crate::Builder::require_quorum).
    NoQuorum {
        /// Which nodes do not vote, and why.
        health: Health,
    },
    /// There are more nodes than allowed.
    TooManyNodes {
        /// How many there are.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// The key of a lock, or the key prefix of a node set, contains `__redlock:`. The library
    /// keeps its own data, and the permits of locks, on the nodes under such keys.
    ReservedKey {
        /// The key on the nodes, with the key prefix; or the key prefix.
        key: String,
    },
    /// A lock has no key, or more than a lock can have.
    NumberOfKeys {
        /// How many different keys it has.
        count: usize,
        /// How many it can have.
        most: usize,
    },
    /// A lock has two things of which no lock can have both.
    NotTogether {
        /// `at_least`, `fair`, `permits` or `shared`, as the text says it.
        one: &'static str,
        /// Another of them, `reentrant`, or several keys.
        other: &'static str,
    },
    /// A lock has so many permits: none, or more than 64.
    NumberOfPermits {
        /// How many it has.
        count: u32,
    },
    /// A duration that must be longer than zero is not.
    ZeroDuration {
        /// The name of the setting.
        setting: &'static str,
    },
    /// A duration is longer than allowed.
    DurationTooLong {
        /// The name of the setting.
        setting: &'static str,
        /// What was set.
        value: Duration,
        /// The longest that can be set.
        longest: Duration,
    },
    /// The lease is no longer than the [drift of clocks](crate#units) that Redlock allows for.
    LeaseTooShort {
        /// The lease.
        expire: Duration,
    },
    /// The lease is longer than `max_lease`.
    LeaseTooLong {
        /// The lease.
        expire: Duration,
        /// The longest lease that this node set allows.
        max_lease: Duration,
    },
    /// `max_lease` is longer than allowed.
    MaxLeaseTooLong {
        /// What was set.
        max_lease: Duration,
        /// The longest that can be set.
        longest: Duration,
    },
    /// The first renewal would come after the lease has ended.
    RenewNotShorter {
        /// Time between renewals.
        renew: Duration,
        /// The lease.
        expire: Duration,
    },
    /// Renewals would come too often. Each one sends a request to every node.
    RenewTooOften {
        /// Time between renewals: what was set, or a third of the lease.
        renew: Duration,
        /// The shortest time that is allowed.
        shortest: Duration,
    },
    /// `max_hold` would end the lock before its first lease is over.
    MaxHoldTooShort {
        /// The longest hold.
        max_hold: Duration,
        /// The lease.
        expire: Duration,
    },
    /// `max_hold` limits renewals, but `renew` is not set.
    MaxHoldWithoutRenew,
    /// The nodes would not keep the lock for `at_least` if the process crashed.
    AtLeastTooLong {
        /// The shortest time that they are to keep it.
        at_least: Duration,
        /// The lease.
        expire: Duration,
    },
    /// A lock was asked for by blocking the thread, within a task of an async runtime, whose other
    /// tasks would stand still. Await the lock there, or call the blocking code by `spawn_blocking`.
    BlocksRuntime,
    /// A lock was asked for by blocking the thread, and the node set works on a
    /// [runtime](crate::Builder::runtime) of one thread, which may be the one that would be blocked.
    EngineOnCurrentThread,
    /// An annotated function cannot work with this node set. One such problem for each mistake.
    Section {
        /// The function.
        section: &'static SectionInfo,
        /// What is wrong with its arguments.
        problem: Box<Self>,
    },
    /// A node set is installed already.
    AlreadyInstalled,
    /// A node set is installed already, and has other nodes. The nodes of a process that runs are not
    /// changed: [`guide::operating`](crate::guide::operating#replacing-a-server) describes how a server
    /// is replaced.
    OtherNodes {
        /// The addresses of the nodes that are installed.
        installed: Vec<String>,
        /// The addresses of those that were given now.
        given: Vec<String>,
    },
    /// The clock of this tokio runtime is paused, and the engine would count leases in real time: a
    /// test would see its own time pass and no lease end.
    PausedClock,
    /// The engine's thread or runtime could not be started.
    NoEngine {
        /// The error message of the operating system or the runtime.
        message: String,
    },
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNodes => write!(
                f,
                "no node is configured; name some with `nodes([...])` or in the environment variable {NODES_VARIABLE}"
            ),
            Self::NodesVariableEmpty => write!(
                f,
                "{NODES_VARIABLE} is set but empty; name nodes in it, with commas between them, or unset it"
            ),
            Self::NodesVariableNotUnicode => write!(f, "{NODES_VARIABLE} is not valid UTF-8"),
            Self::BadVariable { name, reason } => write!(f, "{name} {reason}"),
            Self::BadNode { index, reason } => write!(f, "node {index}: {reason}"),
            Self::BadTls { file, reason } => match file {
                Some(file) => write!(f, "TLS: {} {reason}", file.display()),
                None => write!(f, "TLS: {reason}"),
            },
            Self::DuplicateNode {
                first,
                second,
                address,
            } => write!(
                f,
                "nodes {first} and {second} are both {address}; every node must be a server of its own"
            ),
            Self::MixedNodes { memory, server } => write!(
                f,
                "{memory} lives in this process only and {server} is a server; two processes with such nodes could both hold one lock, so use only servers, or only memory nodes in a test"
            ),
            Self::ServersRequired { memory } => write!(
                f,
                "{memory} lives in this process only, and servers are required; name some with `nodes([...])` or in the environment variable {NODES_VARIABLE}; for tests, leave out `require_servers(true)`"
            ),
            Self::TooManyNodes { count, most } => write!(
                f,
                "{count} nodes are too many; use at most {most}, five are plenty"
            ),
            Self::ReservedKey { key } => write!(
                f,
                "the key `{}` contains `{RESERVED}`, which is reserved for the library's own keys; use another key or key prefix",
                shown(key)
            ),
            of_process => of_process.fmt_of_process(f),
        }
    }
}

impl ConfigProblem {
    pub(crate) fn in_section(self, section: &'static SectionInfo) -> Self {
        Self::Section {
            section,
            problem: Box::new(self),
        }
    }

    /// The address that the text begins with, if it is about one server.
    pub(super) fn address(&self) -> &str {
        match self {
            Self::AccessDenied { address, .. }
            | Self::EvictingNode { address, .. }
            | Self::OtherMaxLease { address, .. } => address,
            _ => "",
        }
    }

    /// The problems with where and when in the process something was asked for.
    fn fmt_of_process(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BlocksRuntime => f.write_str(
                "waiting for a lock would block a thread of the async runtime; call blocking code by \
                 `spawn_blocking`, or await the lock",
            ),
            Self::EngineOnCurrentThread => f.write_str(
                "waiting for a lock could block the only thread of the runtime that the node set works \
                 on; leave out `Builder::runtime`, or give it a runtime of several threads",
            ),
            Self::Section { section, problem } => write!(f, "{section}: {problem}"),
            Self::AlreadyInstalled => write!(
                f,
                "a node set is installed already; make further ones with `build` and name them with `via`"
            ),
            Self::OtherNodes { installed, given } => write!(
                f,
                "a node set with the nodes {} is installed already, and its nodes cannot be changed to {} \
                 while the process runs: two processes whose lists differ can hold one lock; replace one \
                 server at a time, as `redlock_runtime::guide::operating` describes, and start each \
                 process again with the new list",
                installed.join(", "),
                given.join(", ")
            ),
            Self::PausedClock => f.write_str(
                "the tokio clock is paused here, and the leases of this node set run in real time; \
                 use `Redlock::test()` (feature `test-util`), or `memory://` nodes with \
                 `runtime(tokio::runtime::Handle::current())`, or do not pause the clock",
            ),
            Self::NoEngine { message } => write!(f, "the lock engine could not start: {message}"),
            of_servers => of_servers.fmt_of_servers(f),
        }
    }

    /// The problems that only servers reveal.
    fn fmt_of_servers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameServer { first, second } => write!(
                f,
                "{first} and {second} are the same server, which must not vote twice; name each server once"
            ),
            Self::AccessDenied { address, message } => {
                let remedy = remedy(message).unwrap_or("check user and password");
                write!(f, "{address} refuses access ({message}); {remedy}")
            }
            Self::EvictingNode { address, policy } => write!(
                f,
                "{address} deletes keys when memory runs out (maxmemory-policy {policy}), locks included; set the policy to noeviction"
            ),
            Self::OtherMaxLease {
                address,
                theirs,
                ours,
            } => write!(
                f,
                "{address} is used with another `max_lease` or `guard_band`: keys of other processes \
                 live for up to {theirs:.1?}, those of this one for up to {ours:.1?}; give all \
                 processes the same values"
            ),
            Self::NoQuorum { health } => {
                write!(f, "no majority of nodes votes: {health}")?;
                for check in health.checks() {
                    write!(f, "; {check}")?;
                }
                f.write_str("; to start without a majority, set `require_quorum(false)`")
            }
            of_options => of_options.fmt_of_options(f),
        }
    }

    /// The problems with what one lock asks for, beside its times.
    fn fmt_of_options(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NumberOfKeys { count, most } => {
                write!(f, "a lock has one to {most} keys, and not {count}")
            }
            Self::NotTogether { one, other } => write!(
                f,
                "{one} cannot be combined with {other}; leave out one of the two"
            ),
            Self::NumberOfPermits { count } => write!(
                f,
                "a lock has {} to {} permits, and not {count}",
                PERMITS.start(),
                PERMITS.end()
            ),
            Self::MaxHoldWithoutRenew => write!(
                f,
                "`max_hold` has no effect without `renew`; the lease already ends after `expire`"
            ),
            Self::MaxHoldTooShort { max_hold, expire } => write!(
                f,
                "`max_hold` of {max_hold:?} is shorter than `expire`, which is {expire:?}; make the lease shorter instead"
            ),
            Self::MaxLeaseTooLong { max_lease, longest } => write!(
                f,
                "`max_lease` of {max_lease:?} is longer than {longest:?}; to hold locks for longer, use `renew`"
            ),
            of_time => of_time.fmt_time(f),
        }
    }

    /// The problems with durations.
    fn fmt_time(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroDuration { setting } => write!(f, "`{setting}` must be longer than zero"),
            Self::DurationTooLong {
                setting,
                value,
                longest,
            } => write!(
                f,
                "`{setting}` of {value:?} is too long; it can be {longest:?} at most"
            ),
            Self::LeaseTooShort { expire } => write!(
                f,
                "`expire` of {expire:?} is shorter than the clock drift that Redlock allows for; the lock could never be held"
            ),
            Self::LeaseTooLong { expire, max_lease } => write!(
                f,
                "`expire` of {expire:?} is longer than `max_lease`, which is {max_lease:?}; give all processes a longer `max_lease`; or use `renew` with a shorter lease"
            ),
            Self::RenewNotShorter { renew, expire } => write!(
                f,
                "`renew` of {renew:?} must be shorter than `expire`, which is {expire:?}; the lock would expire first"
            ),
            Self::RenewTooOften { renew, shortest } => write!(
                f,
                "`renew` of {renew:?} is too often; each renewal asks all nodes, so it can be {shortest:?} at least (without an interval, `renew` is a third of `expire`)"
            ),
            Self::AtLeastTooLong { at_least, expire } => write!(
                f,
                "`at_least` of {at_least:?} is longer than `expire`, which is {expire:?}; the nodes keep the lock of a process that crashes no longer than that"
            ),
            // Written above. Named one by one, so that a new problem without a text
            // does not compile.
            Self::NoNodes
            | Self::NodesVariableEmpty
            | Self::NodesVariableNotUnicode
            | Self::BadVariable { .. }
            | Self::BadNode { .. }
            | Self::BadTls { .. }
            | Self::DuplicateNode { .. }
            | Self::MixedNodes { .. }
            | Self::ServersRequired { .. }
            | Self::SameServer { .. }
            | Self::AccessDenied { .. }
            | Self::EvictingNode { .. }
            | Self::OtherMaxLease { .. }
            | Self::NoQuorum { .. }
            | Self::TooManyNodes { .. }
            | Self::ReservedKey { .. }
            | Self::NumberOfKeys { .. }
            | Self::NotTogether { .. }
            | Self::MaxLeaseTooLong { .. }
            | Self::NumberOfPermits { .. }
            | Self::MaxHoldWithoutRenew
            | Self::MaxHoldTooShort { .. }
            | Self::Section { .. }
            | Self::BlocksRuntime
            | Self::EngineOnCurrentThread
            | Self::AlreadyInstalled
            | Self::OtherNodes { .. }
            | Self::PausedClock
            | Self::NoEngine { .. } => Ok(()),
        }
    }
}
