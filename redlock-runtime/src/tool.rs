//! For the program `redlock` alone: it looks at servers without being one of the processes that lock, so
//! that a look changes nothing on them.

use std::{sync::Arc, time::Duration};

pub use redis::{ServerError, Value, from_redis_value};
pub use redlock_protocol::{FORMAT, Instant};
use redlock_protocol::{Readings, Record, Why};

pub use crate::{
    clock::now,
    config::{parse_duration, split_urls as urls},
    health::{counted, refuses, remedy, vote},
    inspect::Breaking,
    node::{ClockReading, of_server as why, rejection},
};

use crate::{
    builder::Builder,
    config::{self, ConfigError, Node, Options},
    inspect::{self, Inspection},
    keys::Keys,
    lock::Lock,
    node::{Endpoint, inquire, read_clocks},
    redlock::Redlock,
    script::node_hash,
};

/// The servers of a node set.
#[derive(Debug)]
pub struct Servers {
    nodes: Vec<Node>,
    key_prefix: String,
    timeout: Duration,
}

/// A server, and what things are called on it.
#[derive(Debug)]
pub struct Names {
    pub address: String,
    /// The number of the database.
    pub database: i64,
    /// The node's own hash.
    pub hash: String,
    /// What all keys begin with, the hash included; nothing but on the owner of a slot of a cluster.
    pub tag: Arc<str>,
    /// What the keys of locks begin with.
    pub prefix: String,
}

/// What is wrong with a lock, before any node is asked.
pub fn check(
    builder: &Builder,
    key: &str,
    options: Options,
    value: Option<&str>,
) -> Result<(), ConfigError> {
    let settings = &builder.settings;
    let key: Arc<str> = format!("{}{key}", settings.key_prefix).into();
    let mut problems = settings.problems();
    problems.extend(config::problems_of_keys([&key].into_iter()));
    ConfigError::unless_empty(problems)?;
    options.params(settings, false)?;
    value.map_or(Ok(()), |value| options.check_value(value))
}

pub fn lock(redlock: &Redlock, key: &str, options: Options) -> Lock {
    let key = Keys::One(key.into());
    Lock::new(Arc::clone(&redlock.shared), key, options)
}

/// How long one of `nodes` stays out after a loss of memory, by the `longest` keys of those that vote.
pub fn quarantine(
    nodes: usize,
    voters: impl Iterator<Item = Duration>,
    max_ttl: Duration,
) -> Duration {
    let mut readings = Readings::new(nodes);
    for longest in voters {
        readings.add(&Record {
            longest,
            ..Record::default()
        });
    }
    readings.wait(max_ttl)
}

impl Servers {
    /// Those of the builder, by its keys and its timeout.
    pub fn new(builder: Builder) -> Result<Self, ConfigError> {
        let (nodes, problems) = builder.nodes_and_problems();
        ConfigError::unless_empty(problems)?;
        let settings = builder.settings;
        Ok(Self {
            nodes,
            key_prefix: settings.key_prefix,
            timeout: settings.connect_timeout,
        })
    }

    /// Sends commands to all servers at once, and returns what they reply: `of` is given what things are
    /// called there.
    pub async fn ask(
        &self,
        of: impl Fn(&Names) -> Vec<Vec<String>>,
    ) -> Vec<Result<Vec<Value>, Why>> {
        let commands = self.names().map(|names| of(&names));
        let questions = self.endpoints().zip(commands).collect();
        inquire(questions, self.timeout).await
    }

    pub fn names(&self) -> impl Iterator<Item = Names> {
        let addresses = self.nodes.iter().map(|node| node.address.to_string());
        let named = |(address, Endpoint { tag, database, .. })| Names {
            address,
            database,
            hash: format!("{tag}{}", node_hash(database)),
            prefix: format!("{tag}{}", self.key_prefix),
            tag,
        };
        addresses.zip(self.endpoints()).map(named)
    }

    pub async fn clocks(&self) -> Vec<Result<ClockReading, Why>> {
        read_clocks(self.endpoints().collect(), self.timeout).await
    }

    fn endpoints(&self) -> impl Iterator<Item = Endpoint> {
        let servers = self.nodes.iter().filter_map(|node| node.target.endpoint());
        servers.cloned()
    }

    /// To free the lock with this key, which is without the prefix.
    pub fn breaking(&self, key: &str) -> Breaking<'_> {
        Breaking {
            nodes: &self.nodes,
            key: format!("{}{key}", self.key_prefix).into(),
            limit: self.timeout,
            now: Instant::from_nanos(0),
        }
    }

    /// Who holds the lock with this key, which is without the prefix.
    pub async fn inspect(&self, key: &str) -> Inspection {
        let key = format!("{}{key}", self.key_prefix);
        let now = Instant::from_nanos(0);
        let snapshots = inspect::ask(&self.nodes, &key, now, self.timeout).await;
        Inspection::new(key.into(), snapshots, None, Vec::new(), now)
    }
}
