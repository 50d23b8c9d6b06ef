//! Every rule for what may be configured, for a node set and for one lock, and the error that
//! names what broke them.

use std::{collections::BTreeMap, error, fmt, sync::Arc, time::Duration};

use redis::{IntoConnectionInfo, ProtocolVersion};
use url::Url;

use crate::{
    node::{Memory, Target, with_protocol},
    protocol::{self, Terms},
};

/// The environment variable that names the nodes where the code does not: URLs with commas
/// between them.
pub const NODES_VARIABLE: &str = "REDLOCK_NODES";

/// More nodes do not make a lock safer, only slower; and a typo that names hundreds is caught.
const MOST_NODES: usize = 32;

/// A lease is for work in progress. What runs longer renews it.
const LONGEST_MAX_LEASE: Duration = Duration::from_secs(24 * 60 * 60);

/// What holds for every lock of one node set.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) key_prefix: String,
    pub(crate) expire: Duration,
    pub(crate) max_lease: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) may_evict: bool,
    pub(crate) assume_fresh: bool,
    pub(crate) guard_band: Option<Duration>,
    pub(crate) node_timeout: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            key_prefix: String::new(),
            expire: Duration::from_secs(5),
            max_lease: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(1),
            may_evict: false,
            assume_fresh: false,
            guard_band: None,
            node_timeout: None,
        }
    }
}

impl Settings {
    /// As long as any key may live: then a node that lost its memory has forgotten nothing that
    /// still counts.
    pub(crate) fn quarantine(&self) -> Duration {
        self.longest_key(self.max_lease)
    }

    /// The same where all nodes are new, and this node set's own lease is the best guess.
    pub(crate) fn fresh_quarantine(&self) -> Duration {
        self.longest_key(self.expire)
    }

    fn longest_key(&self, lease: Duration) -> Duration {
        if self.assume_fresh {
            return Duration::ZERO;
        }
        let guard_band = self.guard_band;
        protocol::key_ttl(
            lease,
            guard_band.unwrap_or_else(|| protocol::default_guard_band(lease)),
        )
    }

    pub(crate) fn problems(&self) -> Vec<ConfigProblem> {
        let mut problems = Vec::new();
        let named = [
            ("expire", Some(self.expire)),
            ("max_lease", Some(self.max_lease)),
            ("connect_timeout", Some(self.connect_timeout)),
            ("guard_band", self.guard_band),
            ("node_timeout", self.node_timeout),
        ];
        for (setting, value) in named {
            if value.is_some_and(|value| value.is_zero()) {
                problems.push(ConfigProblem::ZeroDuration { setting });
            }
        }
        if self.max_lease > LONGEST_MAX_LEASE {
            problems.push(ConfigProblem::MaxLeaseTooLong {
                max_lease: self.max_lease,
                longest: LONGEST_MAX_LEASE,
            });
        }
        if !self.expire.is_zero() && !self.max_lease.is_zero() {
            problems.extend(lease_problem(self.expire, self.max_lease));
        }
        problems
    }
}

/// What one lock asks for, as the caller said it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// What the section is called in errors.
    pub name: Option<&'static str>,
    /// The lease; `None` for that of the node set.
    pub expire: Option<Duration>,
    /// How long to wait for the lock; zero is one attempt.
    pub wait: Duration,
    /// Whether and how often the lease is renewed.
    pub renew: Renew,
    /// The longest time that renewals may keep the lock.
    pub max_hold: Option<Duration>,
}

/// Whether and how often a lease is renewed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Renew {
    /// It runs out.
    #[default]
    Never,
    /// Every third of the lease.
    Default,
    /// This often.
    Every(Duration),
}

impl Options {
    /// Checks the options against the settings, and fills in what they leave open.
    pub(crate) fn terms(&self, settings: &Settings) -> Result<Terms, ConfigError> {
        let lease = self.expire.unwrap_or(settings.expire);
        let mut problems = Vec::new();
        problems.extend(lease_problem(lease, settings.max_lease));
        let renew = match self.renew {
            Renew::Never => None,
            Renew::Default => Some(protocol::default_renewal(lease)),
            Renew::Every(interval) => Some(interval),
        };
        match renew {
            Some(Duration::ZERO) => problems.push(ConfigProblem::ZeroDuration { setting: "renew" }),
            Some(renew) if renew >= lease => problems.push(ConfigProblem::RenewNotShorter {
                renew,
                expire: lease,
            }),
            _ => {}
        }
        match self.max_hold {
            Some(_) if renew.is_none() => problems.push(ConfigProblem::MaxHoldWithoutRenew),
            Some(max_hold) if max_hold < lease => {
                problems.push(ConfigProblem::MaxHoldTooShort {
                    max_hold,
                    expire: lease,
                });
            }
            _ => {}
        }
        ConfigError::unless_empty(problems)?;
        Ok(Terms {
            lease,
            guard_band: settings
                .guard_band
                .unwrap_or_else(|| protocol::default_guard_band(lease)),
            node_timeout: settings
                .node_timeout
                .unwrap_or_else(|| protocol::default_node_timeout(lease)),
            min_validity: protocol::default_min_validity(lease),
            wait: self.wait,
            renew,
            max_hold: self.max_hold,
        })
    }
}

fn lease_problem(expire: Duration, max_lease: Duration) -> Option<ConfigProblem> {
    if expire > max_lease {
        return Some(ConfigProblem::LeaseTooLong { expire, max_lease });
    }
    if !protocol::outlasts_drift(expire) {
        return Some(ConfigProblem::LeaseTooShort { expire });
    }
    None
}

/// One node of a set: where it is, and what it is called where passwords must not appear.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) address: Arc<str>,
    pub(crate) target: Target,
}

/// Reads the URLs of a node set; every bad one is a problem of its own.
pub(crate) fn parse_nodes(urls: &[String]) -> (Vec<Node>, Vec<ConfigProblem>) {
    let mut nodes = Vec::new();
    let mut problems = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for (index, url) in urls.iter().enumerate() {
        match parse_node(url) {
            Ok(node) => {
                if let Some(&first) = known.get(&*node.address) {
                    problems.push(ConfigProblem::DuplicateNode {
                        first,
                        second: index,
                        address: node.address.to_string(),
                    });
                } else {
                    known.insert(node.address.to_string(), index);
                }
                nodes.push(node);
            }
            Err(reason) => problems.push(ConfigProblem::BadNode { index, reason }),
        }
    }
    if urls.is_empty() {
        problems.push(ConfigProblem::NoNodes);
    } else if urls.len() > MOST_NODES {
        problems.push(ConfigProblem::TooManyNodes {
            count: urls.len(),
            most: MOST_NODES,
        });
    }
    (nodes, problems)
}

/// The reasons quote nothing of the URL but its scheme: what is malformed may well be the
/// password.
fn parse_node(text: &str) -> Result<Node, String> {
    let url = Url::parse(text.trim())
        .map_err(|error| format!("not a URL ({error}); write it as `redis://host:6379`"))?;
    match url.scheme() {
        "memory" => memory_node(&url),
        "rediss" | "valkeys" if !cfg!(feature = "tls") => {
            Err(format!("`{}` needs the feature `tls`", url.scheme()))
        }
        "redis" | "rediss" | "valkey" | "valkeys" | "unix" | "redis+unix" | "valkey+unix" => {
            redis_node(&url)
        }
        scheme => Err(format!(
            "unknown scheme `{scheme}`; the schemes are `redis`, `rediss`, `unix` and `memory`"
        )),
    }
}

fn memory_node(url: &Url) -> Result<Node, String> {
    let name = url.host_str().unwrap_or_default();
    if name.is_empty() {
        return Err("a memory node needs a name; write it as `memory://a`".to_owned());
    }
    Ok(Node {
        address: format!("memory://{name}").into(),
        target: Target::Memory(Memory::named(name)),
    })
}

fn redis_node(url: &Url) -> Result<Node, String> {
    let info = url.clone().into_connection_info().map_err(|error| {
        let what = error.detail().map_or_else(
            || error.to_string(),
            |_| {
                // The detail may quote the URL; the kind of error does not.
                format!("{:?}", error.kind())
            },
        );
        format!("not the URL of a Redis server ({what})")
    })?;
    let says_protocol = url.query_pairs().any(|(name, _)| name == "protocol");
    let info = if says_protocol {
        info
    } else {
        with_protocol(info, ProtocolVersion::RESP3)
    };
    Ok(Node {
        address: info.addr().to_string().into(),
        target: Target::Redis(Box::new(info)),
    })
}

/// What is wrong with a configuration: all of it, not just the first mistake.
///
/// No message holds a password, nor any part of a URL that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    problems: Vec<ConfigProblem>,
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

    /// Every problem that was found; at least one.
    #[must_use]
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.problems
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl error::Error for ConfigError {}

/// One mistake in a configuration.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigProblem {
    /// No node was given, neither in code nor by `REDLOCK_NODES`.
    NoNodes,
    /// The node at this index is not one that can be reached.
    BadNode {
        /// Position in the list of nodes, from zero.
        index: usize,
        /// What is wrong with it; quotes nothing that may be a password.
        reason: String,
    },
    /// Two nodes of the list have the same address.
    DuplicateNode {
        /// Position of the one.
        first: usize,
        /// Position of the other.
        second: usize,
        /// Their address.
        address: String,
    },
    /// Two different addresses lead to the same server, which would vote twice.
    SameServer {
        /// The one address.
        first: String,
        /// The other address.
        second: String,
    },
    /// So many servers refused access that no majority can ever be reached. One such problem for
    /// each of them.
    AccessDenied {
        /// The server's address.
        address: String,
        /// The server's own words.
        message: String,
    },
    /// So many servers may drop locks when memory runs out that no majority is left to vote. One
    /// such problem for each of them.
    EvictingNode {
        /// The server's address.
        address: String,
        /// Its `maxmemory-policy`.
        policy: String,
    },
    /// More nodes than any quorum needs.
    TooManyNodes {
        /// How many there are.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// A duration that must be longer than zero is not.
    ZeroDuration {
        /// The name of the setting.
        setting: &'static str,
    },
    /// The lease is no longer than the clock drift that Redlock subtracts from it.
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
    /// `max_lease` itself is beyond reason.
    MaxLeaseTooLong {
        /// What was set.
        max_lease: Duration,
        /// The longest that can be set.
        longest: Duration,
    },
    /// A renewal would come after the lease has ended.
    RenewNotShorter {
        /// Time between renewals.
        renew: Duration,
        /// The lease.
        expire: Duration,
    },
    /// `max_hold` would end the lock before its first lease is over.
    MaxHoldTooShort {
        /// The longest hold.
        max_hold: Duration,
        /// The lease.
        expire: Duration,
    },
    /// `max_hold` bounds renewals, and there are none.
    MaxHoldWithoutRenew,
    /// A node set is installed already.
    AlreadyInstalled,
    /// The operating system gave no thread or no runtime to work on.
    NoEngine {
        /// Its own words.
        message: String,
    },
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNodes => write!(
                f,
                "no node is configured; name some with `nodes([...])` or in {NODES_VARIABLE}"
            ),
            Self::BadNode { index, reason } => write!(f, "node {index}: {reason}"),
            Self::DuplicateNode {
                first,
                second,
                address,
            } => write!(
                f,
                "nodes {first} and {second} are both {address}; every node must be a server of its own"
            ),
            Self::SameServer { first, second } => write!(
                f,
                "{first} and {second} are the same server; it would vote twice"
            ),
            Self::AccessDenied { address, message } => {
                write!(
                    f,
                    "{address} refuses access ({message}); check user and password"
                )
            }
            Self::EvictingNode { address, policy } => write!(
                f,
                "{address} drops keys when memory runs out (maxmemory-policy {policy}); set it to noeviction, or say `allow_eviction(true)`"
            ),
            Self::TooManyNodes { count, most } => {
                write!(
                    f,
                    "{count} nodes are too many; use at most {most}, five are plenty"
                )
            }
            Self::ZeroDuration { setting } => write!(f, "`{setting}` must be longer than zero"),
            Self::LeaseTooShort { expire } => write!(
                f,
                "`expire` of {expire:?} is shorter than the clock drift that Redlock allows for; the lock could never be held"
            ),
            Self::LeaseTooLong { expire, max_lease } => write!(
                f,
                "`expire` of {expire:?} is longer than `max_lease`, which is {max_lease:?}; hold the lock for longer with `renew`"
            ),
            Self::MaxLeaseTooLong { max_lease, longest } => write!(
                f,
                "`max_lease` of {max_lease:?} is longer than {longest:?}; hold locks for longer with `renew`"
            ),
            Self::RenewNotShorter { renew, expire } => write!(
                f,
                "`renew` of {renew:?} must be shorter than `expire`, which is {expire:?}; the lock would expire first"
            ),
            Self::MaxHoldTooShort { max_hold, expire } => write!(
                f,
                "`max_hold` of {max_hold:?} is shorter than `expire`, which is {expire:?}; make the lease shorter instead"
            ),
            Self::MaxHoldWithoutRenew => write!(
                f,
                "`max_hold` has no effect without `renew`; the lease already ends after `expire`"
            ),
            Self::AlreadyInstalled => write!(
                f,
                "a node set is installed already; make further ones with `build` and name them with `via`"
            ),
            Self::NoEngine { message } => write!(f, "the lock engine could not start: {message}"),
        }
    }
}
