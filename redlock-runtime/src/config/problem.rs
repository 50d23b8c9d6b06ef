//! The rules which a configuration has broken.

use std::{borrow::Cow, error, fmt};

use super::section_info::SectionInfo;
use crate::health::{Health, joined};

/// The environment variable that names the nodes if the code does not: URLs with commas between
/// them.
pub const NODES_VARIABLE: &str = "REDLOCK_NODES";

type Text = Cow<'static, str>;

/// One mistake in a configuration. `Display` says what is wrong, and what to do about it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// Which mistake it is, for programs.
    pub kind: ProblemKind,
    /// What it is about: the name of an option or an environment variable, `node 2` for the third URL, a
    /// file, or the address of a server. Empty if nothing can be named.
    pub setting: Text,
    /// What is wrong. Quotes no part of a URL that may be a password.
    pub fact: Text,
    /// What to do about it; empty if there is nothing to add.
    pub remedy: Text,
    /// The annotated function that the mistake is in.
    pub section: Option<&'static SectionInfo>,
    /// Which nodes do not vote, and why, if there is [no quorum](ProblemKind::NoQuorum).
    pub health: Option<Box<Health>>,
}

/// The kinds of mistakes in a configuration.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// No node was given, neither in code nor by `REDLOCK_NODES`.
    NoNodes,
    /// A variable of the environment is misspelt, or has a value that does not fit.
    BadVariable,
    /// A URL does not name a node.
    BadNode,
    /// What `rediss://` nodes need for TLS cannot be used: a file is missing or is not in PEM form, or a
    /// key does not belong to its certificate.
    BadTls,
    /// Two nodes of the list have the same address.
    DuplicateNode,
    /// Some nodes are in memory and others are servers. A memory node belongs to one process, so
    /// two processes could each win a majority with a memory node of their own, and both hold one
    /// lock.
    MixedNodes,
    /// A node is in memory, and [`Builder::require_servers`](crate::Builder::require_servers) allows
    /// only servers.
    ServersRequired,
    /// Two different addresses lead to the same server, which must not vote twice.
    SameServer,
    /// A server refuses access, and without all such servers no majority is left. There is one problem
    /// for each of them.
    AccessDenied,
    /// A server may delete locks when memory runs out, and without all such servers no majority is
    /// left. There is one problem for each of them.
    EvictingNode,
    /// Other processes use a server with another `max_lease` or guard band, and without all such
    /// servers no majority is left. There is one problem for each of them.
    OtherMaxLease,
    /// No majority of nodes votes, and waiting alone does not change that; see
    /// [`Builder::require_quorum`](crate::Builder::require_quorum).
    NoQuorum,
    /// The key of a lock, or the key prefix of a node set, contains `__redlock:`. The library
    /// keeps its own data, and the permits of locks, on the nodes under such keys.
    ReservedKey,
    /// A number or a duration is too small, too large, or does not fit another one.
    BadOption,
    /// A lock has two options of which no lock can have both.
    NotTogether,
    /// A lock was asked for by blocking the thread, where other tasks would stand still: within a task of an
    /// async runtime, or in a test with a node set that works on the only thread of its runtime.
    /// Await the lock there, or call the blocking code by `spawn_blocking`.
    BlocksRuntime,
    /// A node set is installed already. The nodes of a process that runs are not changed:
    /// [`guide::operating`](crate::guide::operating#replacing-a-server) describes how a server is replaced.
    AlreadyInstalled,
    /// The clock of this tokio runtime is paused, and the engine would count leases in real time: a
    /// test would see its own time pass and no lease end.
    PausedClock,
    /// The engine's thread or runtime could not be started.
    NoEngine,
}

/// Every mistake in a configuration, and not only the first one.
///
/// No message contains a password, or any part of a URL that could not be parsed. `Debug` writes the
/// same text as `Display`, because a `main` that returns the error prints it by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigError {
    pub(super) problems: Vec<ConfigProblem>,
}

impl ConfigProblem {
    pub(crate) fn new(
        kind: ProblemKind,
        setting: impl Into<Text>,
        fact: impl Into<Text>,
        remedy: impl Into<Text>,
    ) -> Self {
        Self {
            kind,
            setting: setting.into(),
            fact: fact.into(),
            remedy: remedy.into(),
            section: None,
            health: None,
        }
    }

    /// Of an option of a lock or of the builder.
    pub(crate) fn option(setting: &'static str, fact: impl Into<Text>) -> Self {
        Self::new(ProblemKind::BadOption, setting, fact, "")
    }

    pub(crate) fn no_engine(fact: impl fmt::Display) -> Self {
        let fact = format!("the lock engine could not start: {fact}");
        Self::new(ProblemKind::NoEngine, "", fact, "")
    }

    pub(crate) fn paused_clock() -> Self {
        Self::new(
            ProblemKind::PausedClock,
            "",
            "the tokio clock is paused here, and the leases of this node set run in real time",
            "use `Redlock::test()` (feature `test-util`), or build `memory://` nodes after the clock was paused, \
             or do not pause it",
        )
    }

    pub(crate) fn already_installed() -> Self {
        Self::new(
            ProblemKind::AlreadyInstalled,
            "",
            "a node set is installed already",
            "make further ones with `build` and name them with `via`",
        )
    }

    pub(crate) fn no_quorum(health: Health) -> Self {
        let mut fact = format!("no majority of nodes votes: {health}");
        for check in health.checks() {
            fact = format!("{fact}; {check}");
        }
        let remedy = "to start without a majority, set `require_quorum(false)`";
        Self {
            health: Some(Box::new(health)),
            ..Self::new(ProblemKind::NoQuorum, "", fact, remedy)
        }
    }

    /// The address that the text begins with, if it is about one server.
    pub(super) fn address(&self) -> &str {
        use ProblemKind::{AccessDenied, EvictingNode, OtherMaxLease};
        match self.kind {
            AccessDenied | EvictingNode | OtherMaxLease => &self.setting,
            _ => "",
        }
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(section) = self.section {
            write!(f, "{section}: ")?;
        }
        match self.kind {
            ProblemKind::BadNode => write!(f, "{}: ", self.setting)?,
            ProblemKind::BadVariable => write!(f, "{} ", self.setting)?,
            _ if !self.address().is_empty() => write!(f, "{} ", self.setting)?,
            _ => {}
        }
        f.write_str(&self.fact)?;
        match &*self.remedy {
            "" => Ok(()),
            remedy => write!(f, "; {remedy}"),
        }
    }
}

impl ConfigError {
    pub(crate) fn of(problem: ConfigProblem) -> Self {
        Self {
            problems: vec![problem],
        }
    }

    pub(crate) fn unless_empty(problems: Vec<ConfigProblem>) -> Result<(), Self> {
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Self { problems })
        }
    }

    /// Says which annotated function cannot work, if it is one.
    pub(crate) fn in_section(mut self, section: Option<&'static SectionInfo>) -> Self {
        for problem in &mut self.problems {
            problem.section = section;
        }
        self
    }

    /// Returns every problem that was found; at least one.
    #[must_use]
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.problems
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems = self.problems.iter();
        f.write_str(&joined(problems.map(|it| (it.address(), it)), "; "))
    }
}

impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl error::Error for ConfigError {}
