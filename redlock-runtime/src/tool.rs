//! For the program `redlock` alone: it looks at servers without being one of the processes that lock, so
//! that a look changes nothing on them.

use std::{sync::Arc, time::Duration};

pub use redis::{ServerError, Value};
pub use redlock_protocol::FORMAT;
use redlock_protocol::{Instant, Readings, Record, Rejection, Why};

pub use crate::{health::vote, node::ClockReading};

use crate::{
    config::{self, Access, ConfigError, Node, parse_nodes, split_urls},
    inspect::{self, Inspection},
    node,
    node::{Credentials, Endpoint, Login, Target, inquire, of_server, read_clocks},
    script::node_hash,
};

/// The servers of a node set.
#[derive(Debug)]
pub struct Servers {
    nodes: Vec<Node>,
    timeout: Duration,
}

/// What things are called on a node.
#[derive(Debug)]
pub struct Names {
    /// The node's own hash.
    pub hash: String,
    /// What all keys begin with, the hash included.
    pub tag: Arc<str>,
}

/// The URLs of a list, as `REDLOCK_NODES` is one: those of Sentinels have commas in them.
pub fn urls(list: &str) -> Vec<String> {
    split_urls(list)
}

/// What is wrong, as nodes would say it.
pub fn rejection(error: &ServerError) -> Rejection {
    node::rejection(error.code(), error.details().unwrap_or_default())
}

/// Why a server is of no use that replies with this error.
pub fn why(error: &ServerError) -> Why {
    of_server(error)
}

/// A duration with its unit, as configuration files have it.
pub fn parse_duration(text: &str) -> Option<Duration> {
    config::parse_duration(text)
}

/// How long a node of so many stays out that has lost its memory, by the `longest` keys of those that vote.
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
    pub fn new(
        urls: &[String],
        credentials: Option<Credentials>,
        timeout: Duration,
    ) -> Result<Self, ConfigError> {
        Self::open(urls, credentials, Access::default(), timeout)
    }

    #[cfg(feature = "tls")]
    pub fn with_tls(
        urls: &[String],
        credentials: Option<Credentials>,
        tls: config::Tls,
        timeout: Duration,
    ) -> Result<Self, ConfigError> {
        let access = Access { tls, login: None };
        Self::open(urls, credentials, access, timeout)
    }

    fn open(
        urls: &[String],
        credentials: Option<Credentials>,
        mut access: Access,
        timeout: Duration,
    ) -> Result<Self, ConfigError> {
        if credentials.is_some() {
            access.login = Some(Login::Fixed(credentials));
        }
        let (nodes, problems) = parse_nodes(urls, true, &access);
        ConfigError::unless_empty(problems)?;
        Ok(Self { nodes, timeout })
    }

    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| &*node.address)
    }

    /// Sends commands to all servers at once; `of` is given what things are called on a node.
    pub async fn ask(
        &self,
        of: impl Fn(&Names) -> Vec<Vec<String>>,
    ) -> Vec<Result<Vec<Value>, Why>> {
        let question = |endpoint: Endpoint| {
            let tag = Arc::clone(&endpoint.tag);
            let hash = format!("{tag}{}", node_hash(endpoint.database));
            let commands = of(&Names { hash, tag });
            (endpoint, commands)
        };
        let questions = self.endpoints().map(question).collect();
        inquire(questions, self.timeout).await
    }

    pub async fn clocks(&self) -> Vec<Result<ClockReading, Why>> {
        read_clocks(self.endpoints().collect(), self.timeout).await
    }

    /// The number of each node's database.
    pub fn databases(&self) -> impl Iterator<Item = i64> {
        self.endpoints().map(|endpoint| endpoint.database)
    }

    /// Which nodes are the owner of a slot of a cluster.
    pub fn are_of_clusters(&self) -> impl Iterator<Item = bool> {
        self.endpoints().map(|endpoint| !endpoint.tag.is_empty())
    }

    fn endpoints(&self) -> impl Iterator<Item = Endpoint> {
        self.nodes.iter().filter_map(|node| match &node.target {
            Target::Redis(endpoint) => Some((**endpoint).clone()),
            _ => None,
        })
    }

    /// Who holds the lock with this key, which is the whole one, prefix included.
    pub async fn inspect(&self, key: &str) -> Inspection {
        let nodes = self.nodes.iter();
        let nodes = nodes.map(|node| (Arc::clone(&node.address), node.target.clone()));
        let now = Instant::from_nanos(0);
        let snapshots = inspect::ask(nodes, key, now, self.timeout).await;
        Inspection::new(key.into(), snapshots, None, Vec::new(), now)
    }
}
