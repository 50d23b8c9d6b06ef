//! Every rule for what may be configured, for a node set and for one lock.

mod discovery_url;
mod duration;
mod lock_options;
mod nodes;
mod option_rules;
mod problem;
mod section_info;
mod server_url;
#[cfg(feature = "tls")]
mod tls;

use std::{sync::Arc, time::Duration};

use redlock_protocol::{LockParams, Member, Mode};

#[cfg(feature = "test-util")]
pub(crate) use self::lock_options::PERMITS;
#[cfg(feature = "test-util")]
pub(crate) use self::nodes::count_problem;
pub(crate) use self::nodes::{Access, Node, parse_nodes};
pub(crate) use self::option_rules::permits_problem;
#[cfg(feature = "tls")]
pub use self::tls::Tls;
pub use self::{
    discovery_url::split as split_urls,
    duration::parse_duration,
    lock_options::{Options, Renew},
    problem::{ConfigError, ConfigProblem, NODES_VARIABLE, ProblemKind},
    section_info::{Registered, SectionInfo},
};
use self::{lock_options::LONGEST_MAX_LEASE, option_rules::lease_problem};
use crate::{key::shown, script::RESERVED};

/// Each key of a lock is a request to every node.
const MOST_KEYS: usize = 16;

/// What the longest lease has by default. The guard band prolongs every key and every quarantine,
/// so a mistaken unit must not make it a matter of days.
const LONGEST_GUARD_BAND: Duration = Duration::from_secs(LONGEST_MAX_LEASE.as_secs() / 10);

/// What the longest lease has by default. A round ends with nine tenths of its lease anyway.
const LONGEST_NODE_TIMEOUT: Duration = Duration::from_secs(LONGEST_MAX_LEASE.as_secs() / 20);

/// [`Builder::build`](crate::Builder::build) takes this long if a server does not answer. A
/// connection that broke unnoticed is also replaced only after this long.
const LONGEST_CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// For this long nobody might notice that a server hangs.
const LONGEST_PING_INTERVAL: Duration = Duration::from_secs(3_600);

/// The lease of locks for which nothing else is said. New servers stay out for no less, though the process that
/// starts has shorter leases: all of them may have been emptied at once, and others may hold locks of this length.
const DEFAULT_LEASE: Duration = Duration::from_secs(5);

/// What holds for every lock of one node set.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) key_prefix: String,
    /// What the process is called on the nodes, if not like its executable.
    pub(crate) service: Option<String>,
    pub(crate) expire: Duration,
    pub(crate) max_lease: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) ping_interval: Duration,
    pub(crate) may_evict: bool,
    pub(crate) assume_fresh: bool,
    pub(crate) mixed_fleet: bool,
    pub(crate) guard_band: Option<Duration>,
    pub(crate) node_timeout: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            key_prefix: String::new(),
            service: None,
            expire: DEFAULT_LEASE,
            max_lease: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(1),
            ping_interval: Duration::from_secs(15),
            may_evict: false,
            assume_fresh: false,
            mixed_fleet: false,
            guard_band: None,
            node_timeout: None,
        }
    }
}

impl Settings {
    /// That of locks with this lease.
    pub(crate) fn node_timeout(&self, lease: Duration) -> Duration {
        let default = || redlock_protocol::default_node_timeout(lease);
        self.node_timeout.unwrap_or_else(default)
    }

    /// What the protocol needs to know of them.
    pub(crate) fn for_protocol(&self) -> redlock_protocol::Settings {
        let max_ttl = self.key_ttl(self.max_lease);
        let default_ttl = self.key_ttl(self.expire.max(DEFAULT_LEASE));
        redlock_protocol::Settings {
            silence_limit: self.connect_timeout,
            ping_interval: Some(self.ping_interval),
            may_evict: self.may_evict,
            assume_fresh: self.assume_fresh,
            mixed_fleet: self.mixed_fleet,
            ..redlock_protocol::Settings::of(max_ttl, max_ttl.min(default_ttl))
        }
    }

    fn key_ttl(&self, lease: Duration) -> Duration {
        redlock_protocol::key_ttl(lease, self.guard_band(lease))
    }

    fn guard_band(&self, lease: Duration) -> Duration {
        let default = || redlock_protocol::default_guard_band(lease);
        self.guard_band.unwrap_or_else(default)
    }

    /// A lease that a holder asks for, by the rules for `expire`.
    pub(crate) fn lease(
        &self,
        length: Duration,
    ) -> Result<redlock_protocol::LeaseParams, ConfigError> {
        match lease_problem(length, self.max_lease) {
            Some(problem) => Err(ConfigError::of(problem.into())),
            None => Ok(redlock_protocol::LeaseParams {
                length,
                guard_band: self.guard_band(length),
            }),
        }
    }

    pub(crate) fn problems(&self) -> Vec<ConfigProblem> {
        let mut problems = Vec::new();
        problems.extend(reserved_key(&self.key_prefix));
        for (setting, value, longest) in [
            ("max_lease", Some(self.max_lease), LONGEST_MAX_LEASE),
            (
                "connect_timeout",
                Some(self.connect_timeout),
                LONGEST_CONNECT_TIMEOUT,
            ),
            (
                "ping_interval",
                Some(self.ping_interval),
                LONGEST_PING_INTERVAL,
            ),
            ("guard_band", self.guard_band, LONGEST_GUARD_BAND),
            ("node_timeout", self.node_timeout, LONGEST_NODE_TIMEOUT),
        ] {
            let fact = match value {
                Some(Duration::ZERO) => format!("`{setting}` must be longer than zero"),
                Some(value) if value > longest => {
                    format!("`{setting}` of {value:?} is too long; it can be {longest:?} at most")
                }
                _ => continue,
            };
            problems.push(ConfigProblem::option(setting, fact));
        }
        if !self.max_lease.is_zero() {
            let problem = lease_problem(self.expire, self.max_lease);
            problems.extend(problem.map(ConfigProblem::from));
        }
        problems
    }
}

impl Options {
    pub(crate) const fn mode(&self) -> Mode {
        if self.shared {
            Mode::Shared
        } else {
            Mode::Exclusive
        }
    }

    /// What is locked with them.
    pub(crate) fn member(&self, key: Arc<str>) -> Member {
        Member {
            key,
            permits: self.permits.unwrap_or_default(),
            weight: self.weight.unwrap_or(1),
            mode: self.mode(),
        }
    }

    /// Checks the options against the settings, and fills in what they leave open.
    pub(crate) fn params(
        &self,
        settings: &Settings,
        has_several_keys: bool,
    ) -> Result<LockParams, ConfigError> {
        let lease = self.expire.unwrap_or(settings.expire);
        let problem = self.first_problem_with(has_several_keys, Some(lease), settings.max_lease);
        if let Some(problem) = problem {
            return Err(ConfigError::of(problem.into()));
        }
        Ok(LockParams {
            lease,
            guard_band: settings.guard_band(lease),
            node_timeout: settings.node_timeout(lease),
            min_validity: redlock_protocol::default_min_validity(lease),
            wait: self.wait,
            renew: self.renewal(lease),
            max_hold: self.max_hold,
            mode: self.mode(),
            at_least: self.at_least.unwrap_or_default(),
            permits: self.permits.unwrap_or_default(),
            is_fair: self.fair,
        })
    }
}

/// Of all annotated functions that use the installed node set, what is wrong with each. Nothing if
/// the settings themselves are wrong: mistakes in those would be told once more for every function.
pub(crate) fn problems_of_sections(settings: &Settings) -> Vec<ConfigProblem> {
    if !settings.problems().is_empty() {
        return Vec::new();
    }
    let mut all = SectionInfo::all();
    all.retain(|section| section.can_be_checked_at_start());
    let problems = all.into_iter().flat_map(|section| {
        // What follows in the key cannot make it a key that is not reserved.
        let key = format!("{}{}", settings.key_prefix, section.key);
        let of_key = reserved_key(&key);
        let of_options = section.options().params(settings, false).err();
        let problems = of_options.into_iter().flat_map(|error| error.problems);
        problems.chain(of_key).map(|problem| ConfigProblem {
            section: Some(section),
            ..problem
        })
    });
    problems.collect()
}

/// The problems with the keys of one lock as they stand on the nodes, prefix included.
pub(crate) fn problems_of_keys<'a>(keys: impl Iterator<Item = &'a Arc<str>>) -> Vec<ConfigProblem> {
    let (mut problems, mut count) = (Vec::new(), 0);
    for key in keys {
        problems.extend(reserved_key(key));
        count += 1;
    }
    if !(1..=MOST_KEYS).contains(&count) {
        let fact = format!("a lock has one to {MOST_KEYS} keys, and not {count}");
        problems.push(ConfigProblem::option("key", fact));
    }
    problems
}

/// The problem with a key as it stands on the nodes, prefix included.
pub(crate) fn reserved_key(key: &str) -> Option<ConfigProblem> {
    key.contains(RESERVED).then(|| {
        let fact = format!(
            "the key `{}` contains `{RESERVED}`, which is reserved for the library's own keys",
            shown(key)
        );
        let remedy = "use another key or key prefix";
        ConfigProblem::new(ProblemKind::ReservedKey, "key", fact, remedy)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other processes may have longer leases, and all servers may have been emptied at once.
    #[test]
    fn a_process_with_short_leases_does_not_shorten_a_first_start() {
        let first_start = |expire, max_lease| {
            let settings = Settings {
                expire: Duration::from_secs(expire),
                max_lease: Duration::from_secs(max_lease),
                ..Settings::default()
            };
            settings.for_protocol().default_ttl
        };
        let ttl_of = |lease| Settings::default().key_ttl(Duration::from_secs(lease));
        assert_eq!(first_start(1, 60), ttl_of(5));
        assert_eq!(first_start(20, 60), ttl_of(20));
        assert_eq!(first_start(1, 2), ttl_of(2), "nobody has longer ones");
    }
}
