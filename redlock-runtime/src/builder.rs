//! From a description of a node set to one that works.

mod check;

use std::{
    env::{self, VarError},
    error::Error,
    fmt,
    sync::Arc,
    time::Duration,
};

use crate::{
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

/// Describes a node set. Every mistake is reported at once, by [`build`](Self::build) or
/// [`install`](Self::install).
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
#[derive(Clone)]
#[must_use = "a builder does nothing until `build` or `install` is awaited"]
pub struct Builder {
    nodes: Nodes,
    access: Access,
    servers_only: bool,
    needs_quorum: bool,
    settings: Settings,
    runtime: Option<tokio::runtime::Handle>,
}

#[derive(Clone)]
enum Nodes {
    Given(Vec<String>),
    /// From the environment, or else these.
    FromEnvironmentOr(Vec<String>),
}

impl Builder {
    /// The nodes, as URLs. Without this call they are taken from the environment variable
    /// `REDLOCK_NODES`, with commas between them; see
    /// [`nodes_from_env_or`](Self::nodes_from_env_or).
    ///
    /// - `redis://[user:password@]host[:port][/database]`; a user without a password is one that needs none
    /// - `rediss://...`: the same over TLS, with the feature `tls`; see `Builder::tls` for the parameters
    /// - `redis+sentinel://[user:password@]host[:port],.../master[/database]`: the server that a majority of
    ///   these Sentinels names; see [servers](crate::guide::servers#masters-that-sentinels-name)
    /// - `redis+cluster://[user:password@]host[:port],...[?tag=...]`: the server of this Redis Cluster that owns
    ///   the slot of the hash tag; see [servers](crate::guide::servers#redis-cluster)
    /// - `rediss+sentinel://...` and `rediss+cluster://...`: the same over TLS
    /// - `unix:///path/to/socket[?db=...&user=...&pass=...]`
    /// - `memory://name`: no server at all, but a store in this process, for tests and for
    ///   trying things out; one name is one store. Locks on such nodes exclude nothing outside this
    ///   process, so they cannot stand beside servers in one node set
    ///
    /// A part of a URL that has no meaning here, such as another parameter, is an error. In a password,
    /// write `/` as `%2F`, `?` as `%3F` and `#` as `%23`.
    ///
    /// Use an odd number of servers that fail independently: no replicas of each other, no two of one
    /// cluster, each with its own machine. With one node there is no lock while that server is down.
    pub fn nodes<I>(mut self, urls: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.nodes = Nodes::Given(urls.into_iter().map(Into::into).collect());
        self
    }

    /// The nodes that the environment variable `REDLOCK_NODES` names, or `urls` if it is not set.
    /// A variable that is set but names nothing is an error and no reason to use `urls`.
    ///
    /// Take care with `memory://` nodes as `urls`: if the variable is missing or misspelt, every
    /// process locks for itself, and nothing fails. [`Redlock::is_embedded`] reports that, and
    /// [`require_servers`](Self::require_servers) refuses it.
    pub fn nodes_from_env_or<I>(mut self, urls: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.nodes = Nodes::FromEnvironmentOr(urls.into_iter().map(Into::into).collect());
        self
    }

    /// User and password for all nodes whose URLs name none. Default: none.
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.access.login = Some(Login::Fixed(Some(credentials)));
        self
    }

    /// Asks `provider` for user and password, for all nodes whose URLs name none: for passwords and
    /// tokens that change. It is called each time a connection to a node has been made and has to be
    /// signed in, with the [address](crate::NodeStatus::address) of the node. For a master that Sentinels
    /// name, it is called with the address of the master, and for a cluster with that of each server.
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
    /// A connection that is signed in is not signed in again: when a token expires, the server closes the
    /// connection or it does not. If it does, the library connects again with a new token, and locks that
    /// are held stay, because their keys are on the servers.
    ///
    /// # Errors
    /// If it fails or panics, the connection is given up, and tried again later; the node is
    /// [`NodeState::Down`](crate::NodeState::Down), with the text of the error as its reason. So that text
    /// must not contain secrets.
    ///
    /// # Cancellation
    /// Its future is dropped when the [`connect_timeout`](Self::connect_timeout) is over, which also
    /// counts the time for the connection. It is a task of the runtime on which the node set works: one of
    /// a thread of its own if there is no [`runtime`](Self::runtime). It must not block that thread.
    pub fn credentials_from<F, R, E>(mut self, provider: F) -> Self
    where
        F: Fn(Arc<str>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.access.login = Some(Login::Provided(Provider::new(provider)));
        self
    }

    /// How `rediss://` nodes prove who they are, and how this process does. Default: their certificates
    /// are checked against the operating system's roots, and the process has none.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: config::Tls) -> Self {
        self.access.tls = tls;
        self
    }

    /// With `true`, `memory://` nodes are a [`ProblemKind::ServersRequired`], whether the code or
    /// the environment names them. For programs in production: if `REDLOCK_NODES` is missing, they
    /// fail when they start, and do not lock for one process only. Default: `false`.
    pub const fn require_servers(mut self, require: bool) -> Self {
        self.servers_only = require;
        self
    }

    /// With `false`, [`install`](Self::install) does not wait until a majority of nodes votes, and
    /// does not fail if none can: for services that must start, and serve what needs no lock, while
    /// their nodes are down. Until a majority votes, acquisitions fail or wait;
    /// [`Redlock::health`] and [`Redlock::ready`] report when one does. Default: `true`.
    pub const fn require_quorum(mut self, require: bool) -> Self {
        self.needs_quorum = require;
        self
    }

    /// What every key of this node set begins with on the nodes, such as `"lock:"`. It separates lock
    /// keys from data keys if nodes hold both, and applications from each other.
    /// All processes that share a lock need the same prefix. It cannot contain `__redlock:`, as
    /// no key can; see [`Redlock::lock`]. Default: none.
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.settings.key_prefix = prefix.into();
        self
    }

    /// What this process is called on the nodes, for operators who look for the
    /// [holder](crate::Redlock::inspect) of a lock: its connections are named
    /// `redlock:<id>:<service>:<host>:<process id>`. Up to 64 characters; those that cannot be in such a
    /// name, such as spaces, become `_`. Default: the name of the executable. If a process has several node sets, give
    /// each a name of its own: it is their label in [metrics](crate::guide::monitoring#metrics).
    pub fn service(mut self, service: impl Into<String>) -> Self {
        self.settings.service = Some(service.into());
        self
    }

    /// The lease of locks that set none; at most [`max_lease`](Self::max_lease). Default: 5 s.
    pub const fn expire(mut self, lease: Duration) -> Self {
        self.settings.expire = lease;
        self
    }

    /// How much longer a node keeps a key than the lease and the drift of clocks. It absorbs clock steps
    /// of the nodes, and costs time only after a crash, because a release is immediate. Default: the
    /// longer of 500 ms and a tenth of the lease. At most 2.4 hours, a tenth of the longest
    /// possible lease.
    pub const fn guard_band(mut self, band: Duration) -> Self {
        self.settings.guard_band = Some(band);
        self
    }

    /// How long one round waits for nodes that do not answer. It ends sooner, as soon as the other nodes
    /// decide it. Default: the longer of 50 ms and a twentieth of the lease. At most 72 minutes, a
    /// twentieth of the longest possible lease; but no round waits for longer than one second,
    /// because a node that lost its memory may vote again soon after that.
    pub const fn node_timeout(mut self, timeout: Duration) -> Self {
        self.settings.node_timeout = Some(timeout);
        self
    }

    /// How long connecting to a node may take, and how long a connected node that owes replies may send
    /// none before the library connects to it again: a quarter of this on a connection that was idle for a
    /// second. No lock waits for it. Default: 1 s. At most 1 minute.
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// How long a connection may be idle before the library sends a request over it: one for each server and
    /// interval, and none while locks are used. Default: 15 s. At most 1 hour.
    ///
    /// The request keeps the connection open in firewalls, load balancers and NAT gateways, which forget idle
    /// ones after 60 s to an hour, and with the server option `timeout`. It is also how
    /// [`health`](crate::Redlock::health) and the metrics notice, while nobody locks, that a server hangs:
    /// after one interval and twice the [`connect_timeout`](Self::connect_timeout). Set it below all of these
    /// limits.
    pub const fn ping_interval(mut self, interval: Duration) -> Self {
        self.settings.ping_interval = interval;
        self
    }

    /// The longest lease that a lock of this node set may ask for. Longer work renews its lease.
    /// Default: 60 s. At most 24 hours.
    ///
    /// All processes that share the servers need the same `max_lease` and the same
    /// [`guard_band`](Self::guard_band), because they decide how long a server that lost its memory
    /// must not vote. A server that other processes use with other values does not vote for this node
    /// set ([`NodeState::OtherMaxLease`](crate::NodeState::OtherMaxLease)).
    pub const fn max_lease(mut self, lease: Duration) -> Self {
        self.settings.max_lease = lease;
        self
    }

    /// Lets a node vote for this process at once even if it may have lost its memory: there is no quarantine
    /// after a restart, and no wait for servers that have just been started. For development and tests. In
    /// production, this process can then get a lock after a restart that another one holds. Processes that do
    /// not assume it go on waiting, so it weakens none of their locks among each other.
    pub const fn assume_fresh(mut self, assume: bool) -> Self {
        self.settings.assume_fresh = assume;
        self
    }

    /// Lets a node vote even if it may delete keys when memory runs out: if `maxmemory` is set, and
    /// `maxmemory-policy` is not `noeviction`. By default it does not vote, because two clients can hold
    /// a lock whose key was deleted.
    pub const fn allow_eviction(mut self, allow: bool) -> Self {
        self.settings.may_evict = allow;
        self
    }

    /// For fleets in which clients of other Redlock libraries lock the same keys, for example during
    /// a migration to this one.
    ///
    /// Normally a process that has a lock passes it from task to task, and leaves it to another
    /// process after some 20 ms, if that one is known to wait. Clients of other libraries only try again from
    /// time to time, and take no place in the queue that the nodes keep, so a process with many waiting tasks
    /// could keep them out for as long as its load lasts. With `mixed_fleet(true)` each critical
    /// section acquires and releases the lock on the servers by itself, and then stands back for a
    /// random time, as those clients do.
    ///
    /// The cost: a contended lock needs one round to the servers for each critical section instead
    /// of some twenty rounds a second, so far fewer sections run in a second. A call with a
    /// [`wait`](crate::Lock::wait) for a key that its process had a moment ago waits for up to 50 ms, even if nobody else
    /// wants it. Other locks are as fast as without. Default: false.
    pub const fn mixed_fleet(mut self, mixed: bool) -> Self {
        self.settings.mixed_fleet = mixed;
        self
    }

    /// Runs the engine as a task on this runtime instead of on a thread of its own. A lock then takes less
    /// time if few tasks ask at a time, and more if many do; and tests can pause the clock. In return,
    /// renewals stall when the runtime stalls, and when the runtime is dropped, locks that were not
    /// released stay until their keys expire. The runtime needs its timer and I/O enabled.
    ///
    /// Without this call, threads that use locks do part of the engine's work, one at a time. On a machine
    /// whose processors are all busy, a thread that is scheduled very rarely, such as one of `SCHED_IDLE`,
    /// can then delay all other locks of the process by seconds, and renewals until their leases have
    /// ended. If the process has such threads, call this with a runtime of several threads, also of one
    /// worker: only the runtime's threads do the engine's work then.
    ///
    /// If the clock of the calling runtime is paused, `memory://` nodes run on that runtime without
    /// this call, and servers are a [`ProblemKind::PausedClock`].
    pub fn runtime(mut self, handle: tokio::runtime::Handle) -> Self {
        self.runtime = Some(handle);
        self
    }

    /// What of it does not depend on the nodes.
    pub(crate) fn into_settings(self) -> Settings {
        self.settings
    }

    /// Makes the node set. Waits until every node has been connected to or has failed once, so
    /// at most `connect_timeout`. Nodes that are down are no error: they are tried again in the
    /// background.
    ///
    /// # Errors
    /// Every mistake in the configuration, at once. Also two URLs that lead to one server. And if no majority is
    /// left without them, servers that refuse access, that may delete locks, or that other processes use with
    /// another [`max_lease`](Self::max_lease).
    ///
    /// # Cancellation
    /// Dropping the future leaves nothing behind.
    pub async fn build(self) -> Result<Redlock, ConfigError> {
        self.build_unless(Vec::new()).await
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
        let redlock = start(nodes, self.settings, self.runtime)?;
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

    /// Makes the node set, and makes it the one that annotated functions use. Keep the value in
    /// `main`: dropping it cuts off the bodies that still run, and ends the node set. To let them finish, call
    /// [`Redlock::shutdown`] before.
    ///
    /// Returns once a majority of nodes votes, however long that takes. On servers that have just been started it
    /// takes the key TTL of the default lease, about 6 s, once: they look like servers that have lost all their
    /// locks, so they do not vote before such locks have expired. A default lease below 5 s counts as 5 s. If one
    /// of the new servers cannot be reached, if there is only one, or if a majority has lost its memory, it takes the
    /// key TTL of [`max_lease`](Self::max_lease), by default 67 s. A [cluster](crate::guide::servers#redis-cluster), or a master after a
    /// [failover](crate::guide::servers#masters-that-sentinels-name), takes some seconds more. [`assume_fresh(true)`](Self::assume_fresh) skips the wait in
    /// development, [`require_quorum(false)`](Self::require_quorum) does not wait at all.
    ///
    /// What it waits for is the event [`redlock.start.waiting`](crate::guide::monitoring#events). Nothing is printed: to show
    /// something without a subscriber of `tracing`, do not wait here, and write [`health`](Redlock::health) until
    /// [`ready`](Redlock::ready) returns.
    ///
    /// Before anything is sent, all annotated functions of the program are checked against the
    /// settings, also those that are never called; [`Redlock::sections`] says which are known.
    ///
    /// # Errors
    /// Those of [`build`](Self::build). [`ProblemKind::AlreadyInstalled`] if a node set with the same nodes is
    /// installed, [`ProblemKind::OtherNodes`] if one with other nodes is. One problem for every
    /// annotated function that cannot work. [`ProblemKind::NoQuorum`] if too few nodes can vote and waiting
    /// does not help.
    ///
    /// # Cancellation
    /// Dropping the future leaves nothing behind.
    pub async fn install(self) -> Result<Installed, ConfigError> {
        install::refuse_second(|| {
            let (nodes, _) = self.nodes_and_problems();
            nodes.into_iter().map(|node| node.address).collect()
        })?;
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
impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("access", &self.access)
            .field("servers_only", &self.servers_only)
            .field("needs_quorum", &self.needs_quorum)
            .field("settings", &self.settings)
            .field("runtime", &self.runtime)
            .finish_non_exhaustive()
    }
}

impl Nodes {
    fn urls(self) -> Result<Vec<String>, ConfigProblem> {
        match self {
            Self::Given(urls) => Ok(urls),
            Self::FromEnvironmentOr(urls) => match env::var(NODES_VARIABLE) {
                Ok(list) => urls_of_list(&list),
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

/// Starts the engine. Does not wait for the nodes.
pub(crate) fn start(
    nodes: Vec<Node>,
    settings: Settings,
    runtime: Option<tokio::runtime::Handle>,
) -> Result<Redlock, ConfigError> {
    let is_embedded = nodes.iter().all(Node::is_memory);
    let runtime = with_this_clock(runtime, is_embedded)?;
    #[cfg(feature = "test-util")]
    let is_for_a_test = nodes.iter().any(|node| node.target.is_faulty());
    let addresses: Vec<_> = nodes.iter().map(|node| Arc::clone(&node.address)).collect();
    let name = service(settings.service.as_deref());
    let node_timeout = settings.node_timeout(settings.expire);
    let observer = Observer::new(&addresses, &name, node_timeout);
    #[cfg(feature = "test-util")]
    let observer = observer.with_journal(is_for_a_test);
    let observer = Arc::new(observer);
    let engine = Engine::start(Config {
        nodes: nodes.iter().map(|node| node.target.clone()).collect(),
        observer: Arc::clone(&observer),
        settings: settings.for_protocol(),
        service: name,
        runtime,
        #[cfg(feature = "test-util")]
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

/// Where the engine must run if the clock is paused here: on a runtime whose clock is, too.
fn with_this_clock(
    runtime: Option<tokio::runtime::Handle>,
    is_embedded: bool,
) -> Result<Option<tokio::runtime::Handle>, ConfigError> {
    if !is_paused_here() {
        return Ok(runtime);
    }
    let runtime = runtime.unwrap_or_else(tokio::runtime::Handle::current);
    let is_paused_there = {
        let _there = runtime.enter();
        is_paused_here()
    };
    // Servers answer in real time, which a paused clock skips.
    if is_paused_there && is_embedded {
        Ok(Some(runtime))
    } else {
        Err(ConfigError::of(ConfigProblem::paused_clock()))
    }
}

fn urls_of_list(list: &str) -> Result<Vec<String>, ConfigProblem> {
    let urls = split_urls(list);
    if urls.is_empty() {
        return Err(ConfigProblem::new(
            ProblemKind::NoNodes,
            NODES_VARIABLE,
            format!("{NODES_VARIABLE} is set but empty"),
            "name nodes in it, with commas between them, or unset it",
        ));
    }
    Ok(urls)
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
            runtime: None,
        }
    }
}
