//! From a description of a node set to one that works.

mod check_servers;

use std::{
    env::{self, VarError},
    error::Error,
    fmt,
    sync::Arc,
    time::Duration,
};

use crate::{
    blocking,
    clock::is_paused_here,
    config::{
        self, Access, ConfigError, ConfigProblem, NODES_VARIABLE, Node, ProblemKind, Settings,
        parse_nodes, split_urls,
    },
    engine::{Config, Engine},
    install::{self, Installed},
    node::{Credentials, Login, Provider, service},
    node_set::Shared,
    observe::{self, Observer},
    redlock::Redlock,
};

/// Configures a node set. [`build`](Self::build) and [`install`](Self::install) make it, and report every mistake at
/// once.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redlock_runtime::Redlock;
///
/// let _redlock = Redlock::builder()
///     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
///     .install()
///     .await?;
/// # Ok(())
/// # }
/// ```
///
/// # Threads
/// A node set has a thread of its own, which renews leases whatever the application's runtime does. Threads that use
/// locks do part of its work, one at a time. If all processors are busy, a thread that is rarely scheduled, such as one
/// of `SCHED_IDLE`, can delay all other locks of the node set by seconds, and renewals until leases end. Give such
/// threads a node set of their own, or let tasks on other threads take the locks.
///
/// On Linux, the runtime in which `build` or `install` is awaited also reads what servers reply, while its tasks use
/// locks often, few of them wait at a time, and no others use locks: they then wait for no other thread. If the runtime
/// stands still or is dropped, the node set's thread reads instead. It always does if the program is built with
/// `panic = "abort"`, and if the runtime has its I/O disabled, where tokio prints a panic once.
///
/// If the clock of the runtime is paused, `memory://` nodes work in that runtime, without a thread. Servers fail with
/// [`ProblemKind::PausedClock`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` or `install` is awaited"]
pub struct Builder {
    nodes: Nodes,
    pub(crate) access: Access,
    servers_only: bool,
    needs_quorum: bool,
    pub(crate) settings: Settings,
}

#[derive(Clone)]
enum Nodes {
    Given(Vec<String>),
    /// From the environment, or else these.
    FromEnvironmentOr(Vec<String>),
}

impl Builder {
    /// Sets the nodes, as URLs. Without this call they come from the environment variable `REDLOCK_NODES`: see
    /// [`nodes_from_env_or`](Self::nodes_from_env_or).
    ///
    /// - `redis://[user:password@]host[:port][/database]`; leave out `:password` if the user needs none
    /// - `rediss://...`: TLS, with the feature `tls`; `Builder::tls` has the parameters
    /// - `redis+sentinel://[user:password@]host[:port],.../master[/database]`: the [master that a majority of these
    ///   Sentinels names](crate::guide::servers#masters-that-sentinels-name)
    /// - `redis+cluster://[user:password@]host[:port],...[?tag=...]`: the server of this [Redis
    ///   Cluster](crate::guide::servers#redis-cluster) that owns the slot of the hash tag
    /// - `rediss+sentinel://...` and `rediss+cluster://...`: the same servers over TLS
    /// - `unix:///path/to/socket[?db=...&user=...&pass=...]`
    /// - `memory://name`: a store in this process, for tests; each name is one store. Locks on it exclude nothing
    ///   outside this process. One node set cannot mix it with servers.
    ///
    /// An unknown parameter, or any other unknown part of a URL, is an error. In a password, write `/` as `%2F`, `?` as
    /// `%3F` and `#` as `%23`.
    ///
    /// Use an odd number of servers that fail independently: each on its own machine, no replicas of each other, no two
    /// of one cluster. With one node, there is no lock while that server is down.
    pub fn nodes<I>(mut self, urls: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.nodes = Nodes::Given(urls.into_iter().map(Into::into).collect());
        self
    }

    /// Takes the nodes from the environment variable `REDLOCK_NODES`, URLs with commas between them, or `urls` if it is
    /// not set. A variable that is set but names no node is an error.
    ///
    /// Take care with `memory://` nodes as `urls`: if the variable is missing or misspelt, every process locks for
    /// itself, and nothing fails. [`Redlock::is_embedded`] reports that, and [`require_servers`](Self::require_servers)
    /// makes it an error.
    pub fn nodes_from_env_or<I>(mut self, urls: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.nodes = Nodes::FromEnvironmentOr(urls.into_iter().map(Into::into).collect());
        self
    }

    /// Sets user and password for all nodes whose URLs name none. Default: none.
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.access.login = Some(Login::Fixed(Some(credentials)));
        self
    }

    /// Calls `provider` for user and password, for all nodes whose URLs name none: for passwords and tokens that
    /// change. It is called for each new connection, with the [address](crate::NodeStatus::address) of the node, or
    /// with that of the master that Sentinels name, or of the server of a cluster.
    ///
    /// ```
    /// # fn builder(builder: redlock_runtime::Builder) -> redlock_runtime::Builder {
    /// use redlock_runtime::Credentials;
    ///
    /// // A secret that is mounted as a file, and replaced from time to time.
    /// builder.credentials_from(|_node| async {
    ///     let password = tokio::fs::read_to_string("/run/secrets/locks").await?;
    ///     Ok::<_, std::io::Error>(Credentials::new("locker", password.trim_end()))
    /// })
    /// # }
    /// ```
    ///
    /// If a token expires and the server closes the connection, the library connects again with a new token. Held locks
    /// stay, because their keys are on the servers. An open connection is never signed in again.
    ///
    /// # Errors
    /// If `provider` fails or panics, the library tries again later. Meanwhile the node is
    /// [`NodeState::Down`](crate::NodeState::Down) with the text of the error, which must not contain secrets.
    ///
    /// # Cancellation
    /// The future is dropped when the [`connect_timeout`](Self::connect_timeout) of the connection is over. It runs on
    /// the thread of the node set, and must not block it.
    pub fn credentials_from<F, R, E>(mut self, provider: F) -> Self
    where
        F: Fn(Arc<str>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let provide = move |address| {
            let provided = provider(address);
            Box::pin(async move { provided.await.map_err(Into::into) }) as _
        };
        self.access.login = Some(Login::Provided(Provider(Arc::new(provide))));
        self
    }

    /// Sets the certificates for `rediss://` nodes. Default: the certificates of nodes are checked against the
    /// operating system's roots, and this process presents none.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: config::Tls) -> Self {
        self.access.tls = tls;
        self
    }

    /// Makes a `memory://` node in the code or in the environment an error,
    /// [`ServersRequired`](ProblemKind::ServersRequired). Use it in production: if `REDLOCK_NODES` is missing, the
    /// program fails at its start instead of locking for one process only. Default: `false`.
    pub const fn require_servers(mut self, require: bool) -> Self {
        self.servers_only = require;
        self
    }

    /// Decides whether [`install`](Self::install) waits until a majority of nodes votes, and fails if none can. Use
    /// `false` for a service that must start while its nodes are down. Until a majority votes, acquisitions fail or
    /// wait, and [`Redlock::health`] and [`Redlock::ready`] report it. Default: `true`.
    pub const fn require_quorum(mut self, require: bool) -> Self {
        self.needs_quorum = require;
        self
    }

    /// Sets the beginning of every key of this node set on the nodes, such as `"lock:"`. It separates lock keys from
    /// data keys, and applications from each other. All processes that share a lock need the same prefix. Like any key,
    /// it cannot contain `__redlock:`. Default: none.
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.settings.key_prefix = prefix.into();
        self
    }

    /// Names this process on the nodes, for operators who look for the [holder](crate::Redlock::inspect) of a lock. Its
    /// connections are named `redlock:<id>:<service>:<host>:<process id>`. Default: the name of the executable.
    ///
    /// Up to 64 characters; those that such a name cannot contain, such as spaces, become `_`. If a process has several
    /// node sets, give each its own name: it is their label in [metrics](crate::guide::monitoring#metrics).
    pub fn service(mut self, service: impl Into<String>) -> Self {
        self.settings.service = Some(service.into());
        self
    }

    /// Sets the lease of locks that set none; at most [`max_lease`](Self::max_lease). Default: 5 s.
    pub const fn expire(mut self, lease: Duration) -> Self {
        self.settings.expire = lease;
        self
    }

    /// Sets how long a node keeps a key beyond the lease and the drift of clocks. It absorbs clock steps of the nodes.
    /// It costs time only after a crash, because a release is immediate. Default: 500 ms, or a tenth of the lease if
    /// that is longer. At most 2.4 hours, a tenth of the longest possible lease.
    pub const fn guard_band(mut self, band: Duration) -> Self {
        self.settings.guard_band = Some(band);
        self
    }

    /// Sets how long one round waits for nodes that do not reply. A round ends as soon as the other nodes decide it.
    /// Default: 50 ms, or a twentieth of the lease if that is longer. At most 72 minutes, a twentieth of the longest
    /// possible lease.
    ///
    /// A round waits for at most 1 s, even with a longer timeout, because a node that lost its memory may vote again
    /// after that.
    pub const fn node_timeout(mut self, timeout: Duration) -> Self {
        self.settings.node_timeout = Some(timeout);
        self
    }

    /// Sets how long connecting to a node may take. No lock waits for it. Default: 1 s. At most 1 minute.
    ///
    /// It also limits the silence of a connected node that owes replies: the library connects again after this time, or
    /// after a quarter of it if the connection was idle for a second before.
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// Sets how long a connection may be idle before the library sends a request over it: one for each server and
    /// interval, and none while locks are used. Default: 15 s. At most 1 hour.
    ///
    /// The request keeps the connection open in firewalls, load balancers and NAT gateways, which forget idle
    /// connections after 60 s to an hour, and on servers with the option `timeout`. Set it below all these limits.
    /// While nobody locks, it is also how [`health`](crate::Redlock::health) and the metrics notice that a server
    /// hangs: after one interval and twice the [`connect_timeout`](Self::connect_timeout).
    pub const fn ping_interval(mut self, interval: Duration) -> Self {
        self.settings.ping_interval = interval;
        self
    }

    /// Sets the longest lease that a lock may ask for. Longer work renews its lease. Default: 60 s. At most 24 hours.
    ///
    /// All processes that share the servers need the same `max_lease` and [`guard_band`](Self::guard_band), because the
    /// two decide how long a server that lost its memory must not vote. A server that other processes use with other
    /// values does not vote for this node set ([`NodeState::OtherMaxLease`](crate::NodeState::OtherMaxLease)).
    pub const fn max_lease(mut self, lease: Duration) -> Self {
        self.settings.max_lease = lease;
        self
    }

    /// Lets a node that may have lost its memory vote for this process at once, without the wait after a restart and
    /// the wait for new servers. Default: `false`.
    ///
    /// Only for development and tests: in production, after a restart of a node, this process can get a lock that
    /// another one holds. Processes without this option still wait, so their locks exclude each other.
    pub const fn assume_fresh(mut self, assume: bool) -> Self {
        self.settings.assume_fresh = assume;
        self
    }

    /// Lets a node vote even if it may delete keys when memory runs out, because `maxmemory` is set and
    /// `maxmemory-policy` is not `noeviction`. If the key of a held lock is deleted, two clients can hold the lock.
    /// Default: `false`.
    pub const fn allow_eviction(mut self, allow: bool) -> Self {
        self.settings.may_evict = allow;
        self
    }

    /// Gives clients of other Redlock libraries that lock the same keys their share, for example during a migration.
    /// Default: `false`.
    ///
    /// Those clients retry from time to time, and stand in no queue. A process with many waiting tasks, which passes
    /// the lock from task to task, could keep them out for as long as its load lasts. With this option, each section
    /// acquires and releases the lock on the servers by itself. Then it pauses for a random time, as the other clients
    /// do.
    ///
    /// The cost: a contended lock takes one round to the servers for each section; without the option, it takes some
    /// twenty rounds a second in all. So it runs far fewer sections a second. After releasing a key, the same process
    /// waits up to 50 ms before a call with a [`wait`](crate::Lock::wait) takes it again, even without contention.
    /// Uncontended locks are as fast as without it.
    pub const fn mixed_fleet(mut self, mixed: bool) -> Self {
        self.settings.mixed_fleet = mixed;
        self
    }

    /// Makes the node set. Waits until every node was connected or has failed once, at most for the
    /// [`connect_timeout`](Self::connect_timeout). Nodes that are down are no error: the library connects to them in
    /// the background.
    ///
    /// # Errors
    /// Every [mistake](ProblemKind) in the configuration, at once. Two of them are found by the servers:
    ///
    /// - two URLs lead to one server
    /// - no majority is left, because servers refuse access, may delete locks, or are used by other processes with
    ///   another [`max_lease`](Self::max_lease)
    ///
    /// # Cancellation
    /// Dropping the future leaves nothing behind.
    pub async fn build(self) -> Result<Redlock, ConfigError> {
        self.build_unless(Vec::new()).await
    }

    /// Makes the node set like [`build`](Self::build), and blocks the thread meanwhile: for programs without async.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let redlock = redlock_runtime::Redlock::builder().nodes(["memory://sync"]).build_blocking()?;
    /// redlock.lock("ledger").hold_blocking(|_| println!("no async anywhere"))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`build`](Self::build). [`BlocksRuntime`](ProblemKind::BlocksRuntime) within a task of a tokio runtime.
    pub fn build_blocking(self) -> Result<Redlock, ConfigError> {
        blocking::refuse(false)?;
        blocking::block_on(self.build())
    }

    /// Makes and installs the node set like [`install`](Self::install), and blocks the thread meanwhile: for programs
    /// without async.
    ///
    /// # Errors
    /// As [`install`](Self::install) and [`build_blocking`](Self::build_blocking).
    pub fn install_blocking(self) -> Result<Installed, ConfigError> {
        blocking::refuse(false)?;
        blocking::block_on(self.install())
    }

    /// Makes the node set if nothing else is wrong either.
    async fn build_unless(self, others: Vec<ConfigProblem>) -> Result<Redlock, ConfigError> {
        let (nodes, mut problems) = self.nodes_and_problems();
        problems.extend(self.settings.problems());
        problems.extend(others);
        ConfigError::unless_empty(problems)?;
        for node in nodes.iter().filter(|node| node.is_insecure()) {
            observe::insecure(&node.address);
        }
        let is_paused = is_paused_here();
        // Servers answer in real time, which a paused clock skips.
        if is_paused && !nodes.iter().all(Node::is_memory) {
            return Err(ConfigError::of(ConfigProblem::paused_clock()));
        }
        let redlock = start(nodes, self.settings, is_paused)?;
        redlock.check_servers().await?;
        observe::built(&redlock.health(), redlock.is_embedded());
        Ok(redlock)
    }

    /// The nodes that could be read, and what is wrong with the others.
    pub(crate) fn nodes_and_problems(&self) -> (Vec<Node>, Vec<ConfigProblem>) {
        match self.nodes.clone().urls() {
            Ok(urls) => parse_nodes(&urls, self.servers_only, &self.access),
            Err(problem) => (Vec::new(), vec![problem]),
        }
    }

    /// Makes the node set that annotated functions use, and checks all [known functions](Redlock::sections) against its
    /// settings first. Keep the returned value in `main`: dropping it cuts off running bodies and ends the node set. To
    /// let bodies finish, call [`Redlock::shutdown`] before.
    ///
    /// Waits until a majority of nodes votes, without limit while waiting can help. New servers look like servers that
    /// have lost all locks, so they vote when such locks have expired. This takes:
    ///
    /// - the key TTL of the default lease, about 6 s, once; a lease below 5 s counts as 5 s
    /// - the key TTL of [`max_lease`](Self::max_lease), by default 67 s, if a new server is out of reach, it is the
    ///   only one, or a majority has lost its memory
    /// - some seconds more for a [cluster](crate::guide::servers#redis-cluster), or after a
    ///   [failover](crate::guide::servers#masters-that-sentinels-name)
    ///
    /// [`assume_fresh`](Self::assume_fresh) skips the wait in development. To show progress, subscribe to the event
    /// [`redlock.start.waiting`](crate::guide::monitoring#events), or set
    /// [`require_quorum(false)`](Self::require_quorum) and print [`health`](Redlock::health) until
    /// [`ready`](Redlock::ready) returns. The library prints nothing.
    ///
    /// # Errors
    /// As [`build`](Self::build); one problem for each annotated function that cannot work;
    /// [`AlreadyInstalled`](ProblemKind::AlreadyInstalled) if a node set is installed;
    /// [`NoQuorum`](ProblemKind::NoQuorum) if no majority can vote and waiting does not help.
    ///
    /// # Cancellation
    /// Dropping the future leaves nothing behind.
    pub async fn install(self) -> Result<Installed, ConfigError> {
        install::refuse_second()?;
        let needs_quorum = self.needs_quorum;
        let of_sections = config::problems_of_sections(&self.settings);
        let redlock = self.build_unless(of_sections).await?;
        let health = redlock.health();
        if !health.has_quorum() {
            if needs_quorum {
                redlock.await_quorum().await?;
            } else {
                observe::degraded(&health);
            }
        }
        install::install(redlock)
    }
}

/// Without the URLs, which may hold passwords.
impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

impl Nodes {
    fn urls(self) -> Result<Vec<String>, ConfigProblem> {
        match self {
            Self::Given(urls) => Ok(urls),
            Self::FromEnvironmentOr(urls) => match env::var(NODES_VARIABLE) {
                Ok(list) => match split_urls(&list) {
                    none if none.is_empty() => Err(ConfigProblem::new(
                        ProblemKind::NoNodes,
                        NODES_VARIABLE,
                        format!("{NODES_VARIABLE} is set but empty"),
                        "name nodes in it, with commas between them, or unset it",
                    )),
                    urls => Ok(urls),
                },
                Err(VarError::NotPresent) => Ok(urls),
                Err(VarError::NotUnicode(_)) => Err(ConfigProblem::new(
                    ProblemKind::BadVariable,
                    NODES_VARIABLE,
                    "is not valid UTF-8",
                    "",
                )),
            },
        }
    }
}

/// Starts the engine, on a thread of its own or in this runtime. Does not wait for the nodes.
pub(crate) fn start(
    nodes: Vec<Node>,
    settings: Settings,
    is_in_runtime: bool,
) -> Result<Redlock, ConfigError> {
    let is_embedded = nodes.iter().all(Node::is_memory);
    let is_for_a_test = nodes.iter().any(|node| node.target.is_for_a_test());
    let addresses: Vec<_> = nodes.iter().map(|node| Arc::clone(&node.address)).collect();
    let name = service(settings.service.as_deref());
    let node_timeout = settings.node_timeout(settings.expire);
    let observer = Observer::new(&addresses, &name, node_timeout, is_for_a_test);
    let observer = Arc::new(observer);
    let engine = Engine::start(Config {
        nodes: nodes.iter().map(|node| node.target.clone()).collect(),
        observer: Arc::clone(&observer),
        settings: settings.for_protocol(),
        service: name,
        is_in_runtime,
        seed: is_for_a_test.then_some(0),
    })
    .map_err(|error| ConfigError::of(ConfigProblem::no_engine(error)))?;
    Ok(Redlock {
        shared: Arc::new(Shared {
            engine,
            observer,
            settings,
            nodes,
            addresses,
            is_embedded,
        }),
    })
}

impl Redlock {
    /// Starts to describe a node set.
    pub fn builder() -> Builder {
        Builder {
            nodes: Nodes::FromEnvironmentOr(Vec::new()),
            access: Access::default(),
            servers_only: false,
            needs_quorum: true,
            settings: Settings::default(),
        }
    }
}
