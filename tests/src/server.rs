//! One real `redis-server` process.

mod clock;
mod history;
mod launch;
mod link;

use std::{
    collections::BTreeMap,
    panic::Location,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use redis::{FromRedisValue, RedisResult, Value};
use tempfile::TempDir;

pub use self::clock::Clock;
use self::{launch::Running, link::Link};
use crate::{PATIENCE, Proxy, port::Port, wait::off_thread};

/// A `redis-server` on a loopback port of its own, without persistence.
///
/// It keeps its port through [`Server::kill`] and [`Server::restart`], and dies on drop and with
/// the test process. All methods take `&self`, so that tasks and threads can share it.
///
/// The harness has two connections to it, both named `redlock-tests`: one for the methods below,
/// whose commands show up in [`Server::command_counts`] like any others, and one that records the
/// key events.
#[must_use]
pub struct Server(Arc<Inner>);

impl Server {
    /// Starts a server and waits until it serves.
    pub fn start() -> Self {
        ServerBuilder::default().start()
    }

    /// Starts a server that has a wall clock of its own, [`Server::clock`], and waits until it
    /// serves.
    pub fn start_with_clock() -> Self {
        Self::builder().own_clock().start()
    }

    /// A server that needs a password or settings of its own.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// `redis://127.0.0.1:port`, with the password if there is one. If the environment names
    /// `REDLOCK_TEST_RIGHTS`, with a user who may do that and nothing else; the tests themselves may do all.
    pub fn url(&self) -> String {
        self.url_at(self.port())
    }

    /// The same for what the tests themselves write there, who may do all.
    pub fn own_url(&self) -> String {
        self.0.builder.url(self.port())
    }

    /// [`Server::url`] as seen through a proxy that listens on `port`.
    pub(crate) fn url_at(&self, port: u16) -> String {
        let builder = &self.0.builder;
        match launch::rights().filter(|_| builder.password.is_none()) {
            Some(_) => format!("redis://{}:any@127.0.0.1:{port}", launch::USER),
            None => builder.url(port),
        }
    }

    /// `unix:///…`, the same server through its socket. It takes no password.
    pub fn unix_url(&self) -> String {
        format!("unix://{}", launch::socket(self.0.dir.path()).display())
    }

    /// The port, the same for the life of this value.
    pub fn port(&self) -> u16 {
        self.0.port.number()
    }

    /// A proxy in front of this server, passing everything.
    pub fn proxy(&self) -> Proxy {
        Proxy::in_front_of(self)
    }

    /// The process id of the server.
    pub fn pid(&self) -> u32 {
        self.0.with_running(|running| running.process.id())
    }

    /// The run id, another one after each start.
    pub fn run_id(&self) -> String {
        self.0.with_running(|running| running.run_id.clone())
    }

    /// Whether there is a process, frozen or not.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.0.running().is_some()
    }

    /// Ends the server with SIGKILL; when this returns it is gone, and so are its keys.
    pub fn kill(&self) {
        self.0.kill();
    }

    /// Freezes the server with SIGSTOP: its connections stay, and nothing is answered.
    pub fn stop(&self) {
        self.0.with_running(|running| running.process.stop());
    }

    /// Lets a frozen server run on.
    pub fn cont(&self) {
        self.0.with_running(|running| running.process.cont());
    }

    /// Starts the server again on the same port, with empty memory and another run id. Kills it
    /// first if it runs.
    pub fn restart(&self) {
        self.0.kill();
        let running = self.0.launch();
        *self.0.running() = Some(running);
    }

    /// The server's wall clock, to be stepped and to be made to drift.
    ///
    /// # Panics
    ///
    /// If it has none of its own; see [`ServerBuilder::own_clock`].
    #[track_caller]
    pub fn clock(&self) -> &Clock {
        let clock = self.0.clock.as_ref();
        clock.expect("the server goes by the machine's clock")
    }

    /// What time it is by the server's wall clock, since 1970.
    #[track_caller]
    pub fn time(&self) -> Duration {
        let (seconds, micros): (u64, u64) = self.query(&["TIME"]);
        Duration::from_secs(seconds) + Duration::from_micros(micros)
    }

    /// Sends a command.
    ///
    /// # Panics
    ///
    /// If the server refuses it or does not answer.
    #[track_caller]
    pub fn command(&self, words: &[&str]) -> Value {
        self.query(words)
    }

    /// Sends a command and returns the error of the server or of the connection, if any.
    pub fn try_command(&self, words: &[&str]) -> RedisResult<Value> {
        self.0.link.query(words)
    }

    /// Sends a command and converts the answer, for example `server.query::<u64>(&["DBSIZE"])`.
    ///
    /// # Panics
    ///
    /// If the server refuses it, does not answer, or answers something else.
    #[track_caller]
    pub fn query<T: FromRedisValue>(&self, words: &[&str]) -> T {
        self.0.query(words)
    }

    /// The string at `key`, if there is one.
    #[track_caller]
    pub fn get(&self, key: &str) -> Option<String> {
        self.query(&["GET", key])
    }

    /// Whether there is anything at `key`.
    #[track_caller]
    #[must_use]
    pub fn exists(&self, key: &str) -> bool {
        self.query(&["EXISTS", key])
    }

    /// All keys, sorted.
    #[track_caller]
    pub fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.query(&["KEYS", "*"]);
        keys.sort();
        keys
    }

    /// `SET key value NX PX`, as another holder of the lock would do it; whether it was granted.
    #[track_caller]
    pub fn set_nx_px(&self, key: &str, value: &str, expire: Duration) -> bool {
        let millis = expire.as_millis().to_string();
        let granted: Option<String> = self.query(&["SET", key, value, "NX", "PX", &millis]);
        granted.is_some()
    }

    /// As if the time were over that a server waits for that a client assumed to have forgotten nothing: all other
    /// clients believe it, too.
    #[track_caller]
    pub fn settle(&self) {
        let keeps_all = &self.info("persistence")["aof_enabled"];
        // In a cluster they have a tag before them.
        let is_record = |key: &&String| key.ends_with("__redlock:node:0");
        for record in self.keys().iter().filter(is_record) {
            self.command(&["HDEL", record, "loss", "loss_server", "loss_begin"]);
            self.command(&["HSET", record, "durable", keeps_all]);
        }
    }

    /// A section of `INFO` as its fields.
    #[track_caller]
    pub fn info(&self, section: &str) -> BTreeMap<String, String> {
        self.query::<String>(&["INFO", section])
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(field, value)| (field.to_owned(), value.to_owned()))
            .collect()
    }

    /// How often each command has run since the start or [`Server::reset_counts`], those inside
    /// scripts included; names in lower case.
    #[track_caller]
    pub fn command_counts(&self) -> BTreeMap<String, u64> {
        self.info("commandstats")
            .into_iter()
            .filter_map(|(field, value)| {
                let name = field.strip_prefix("cmdstat_")?;
                let calls = value.strip_prefix("calls=")?.split(',').next()?;
                Some((name.to_owned(), calls.parse().ok()?))
            })
            .collect()
    }

    /// How often one command has run; see [`Server::command_counts`].
    #[track_caller]
    pub fn count(&self, command: &str) -> u64 {
        let counts = self.command_counts();
        counts.get(&command.to_lowercase()).copied().unwrap_or(0)
    }

    /// Lets the counts begin at zero again.
    #[track_caller]
    pub fn reset_counts(&self) {
        self.query::<()>(&["CONFIG", "RESETSTAT"]);
    }

    /// The connections of others than the harness, as the fields of `CLIENT LIST`.
    #[track_caller]
    pub fn clients(&self) -> Vec<BTreeMap<String, String>> {
        self.0.clients()
    }

    /// Blocks until others than the harness have exactly `count` connections.
    #[track_caller]
    pub fn wait_clients(&self, count: usize) {
        self.0.wait_clients(count, Location::caller());
    }

    /// [`Server::wait_clients`] as a future.
    #[track_caller]
    pub fn await_clients(&self, count: usize) -> impl Future<Output = ()> + Send + use<> {
        let caller = Location::caller();
        let inner = Arc::clone(&self.0);
        off_thread(move || inner.wait_clients(count, caller))
    }

    /// Closes the connections of others than the harness; how many.
    #[track_caller]
    pub fn kill_clients(&self) -> usize {
        self.clients()
            .iter()
            .map(|client| self.query::<usize>(&["CLIENT", "KILL", "ID", &client["id"]]))
            .sum()
    }

    /// What has happened to `key` since the server started, oldest first, in the words of Redis:
    /// `set`, `expire`, `del`, `expired`, …
    ///
    /// Complete: every command that was answered before the call is in it.
    #[track_caller]
    pub fn events(&self, key: &str) -> Vec<String> {
        self.0.events(key)
    }

    /// Blocks until `key` has seen at least `count` events named `event`.
    #[track_caller]
    pub fn wait_event(&self, key: &str, event: &str, count: usize) {
        let history = self.0.with_running(|running| running.history.clone());
        history.wait_event(key, event, count);
    }

    /// [`Server::wait_event`] as a future.
    #[track_caller]
    pub fn await_event(
        &self,
        key: &str,
        event: &str,
        count: usize,
    ) -> impl Future<Output = ()> + Send + use<> {
        let history = self.0.with_running(|running| running.history.clone());
        history.await_event(key, event, count)
    }

    /// Fails unless `key` is gone after at most two round trips.
    ///
    /// For releases that were sent before the call: their bytes are on the way, and two round trips
    /// are what a busy machine may need to let them in. Where the release also has to pass through
    /// a thread or a proxy first, use [`Server::await_free`]. A server that does not run holds
    /// nothing.
    #[track_caller]
    pub fn assert_free(&self, key: &str) {
        if !self.is_running() {
            return;
        }
        for _ in 0..2 {
            if !self.exists(key) {
                return;
            }
            self.command(&["PING"]);
        }
        assert!(
            !self.exists(key),
            "port {} still holds {key}, which saw {:?}",
            self.port(),
            self.events(key)
        );
    }

    /// Blocks until `key` is gone, and fails if its last removal was not a `DEL` but an expiry or
    /// an eviction. A server that does not run holds nothing.
    #[track_caller]
    pub fn wait_free(&self, key: &str) {
        self.0
            .wait_free(key, Instant::now() + PATIENCE, Location::caller());
    }

    /// [`Server::wait_free`] as a future.
    #[track_caller]
    pub fn await_free(&self, key: &str) -> impl Future<Output = ()> + Send + use<> {
        let caller = Location::caller();
        let inner = Arc::clone(&self.0);
        let key = key.to_owned();
        off_thread(move || inner.wait_free(&key, Instant::now() + PATIENCE, caller))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Not left to `Inner`: a wait that is still going on elsewhere may own that, too.
        self.0.kill();
    }
}

/// The settings of a [`Server`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ServerBuilder {
    password: Option<String>,
    args: Vec<String>,
    hidden: Vec<String>,
    own_clock: bool,
}

impl ServerBuilder {
    /// Clients must authenticate (`requirepass`); the password is part of [`Server::url`].
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// More arguments for the command line, for example `["--maxmemory", "2mb"]`. They come last
    /// and so override those of the harness.
    pub fn args<I>(mut self, args: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Nobody but the harness knows these commands (`rename-command`), in scripts either.
    pub fn hide<I>(mut self, commands: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.hidden.extend(commands.into_iter().map(Into::into));
        self
    }

    /// The server gets a wall clock of its own, [`Server::clock`].
    pub fn own_clock(mut self) -> Self {
        self.own_clock = true;
        self
    }

    /// Starts the server and waits until it serves.
    ///
    /// # Panics
    ///
    /// If there is no `redis-server` in the path (`REDIS_SERVER` names another program) or if it
    /// refuses its arguments.
    pub fn start(self) -> Server {
        // Another program may take a port between its reservation and the start.
        let mut attempts = 10;
        loop {
            attempts -= 1;
            match Inner::start(self.clone()) {
                Ok(inner) => return Server(Arc::new(inner)),
                Err(log) if attempts > 0 && launch::is_port_taken(&log) => (),
                Err(log) => panic!("redis-server did not start; it said:\n{log}"),
            }
        }
    }

    /// The URL of a server with these settings that listens, itself or by proxy, on `port`.
    fn url(&self, port: u16) -> String {
        match &self.password {
            Some(password) => format!("redis://:{}@127.0.0.1:{port}", percent_encode(password)),
            None => format!("redis://127.0.0.1:{port}"),
        }
    }
}

struct Inner {
    builder: ServerBuilder,
    port: Port,
    dir: TempDir,
    clock: Option<Clock>,
    link: Link,
    running: Mutex<Option<Running>>,
}

impl Inner {
    fn start(builder: ServerBuilder) -> Result<Self, String> {
        let port = Port::reserve();
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let inner = Self {
            link: Link::new(&builder.url(port.number()), &builder.hidden),
            clock: builder.own_clock.then(|| Clock::new(dir.path())),
            dir,
            running: Mutex::new(None),
            builder,
            port,
        };
        let running = inner.try_launch()?;
        *inner.running() = Some(running);
        Ok(inner)
    }

    fn launch(&self) -> Running {
        self.try_launch()
            .unwrap_or_else(|log| panic!("redis-server did not start again; it said:\n{log}"))
    }

    fn try_launch(&self) -> Result<Running, String> {
        Running::launch(
            &self.builder,
            self.port.number(),
            self.dir.path(),
            self.clock.as_ref(),
            &self.link,
        )
    }

    fn kill(&self) {
        self.link.disconnect();
        // Dropping it kills and waits.
        self.running().take();
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[track_caller]
    fn with_running<R>(&self, look: impl FnOnce(&Running) -> R) -> R {
        match &*self.running() {
            Some(running) => look(running),
            None => panic!("the server at port {} does not run", self.port.number()),
        }
    }

    #[track_caller]
    fn events(&self, key: &str) -> Vec<String> {
        let history = self.with_running(|running| running.history.clone());
        history.catch_up(&self.link);
        history.of(key)
    }

    #[track_caller]
    fn query<T: FromRedisValue>(&self, words: &[&str]) -> T {
        match self.link.query(words) {
            Ok(answer) => answer,
            Err(error) => panic!("{words:?} at port {}: {error}", self.port.number()),
        }
    }

    #[track_caller]
    fn clients(&self) -> Vec<BTreeMap<String, String>> {
        self.query::<String>(&["CLIENT", "LIST"])
            .lines()
            .map(|line| {
                line.split_whitespace()
                    .filter_map(|field| field.split_once('='))
                    .map(|(field, value)| (field.to_owned(), value.to_owned()))
                    .collect::<BTreeMap<_, _>>()
            })
            .filter(|client| client.get("name").map(String::as_str) != Some(link::NAME))
            .collect()
    }

    /// The server does not tell when a connection ends; the pace is that of its answers.
    fn wait_clients(&self, count: usize, caller: &Location<'_>) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let clients = self.clients();
            if clients.len() == count {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{caller}: waited in vain for {count} clients; there are {clients:#?}"
            );
        }
    }

    fn wait_free(&self, key: &str, deadline: Instant, caller: &Location<'_>) {
        let port = self.port.number();
        while self.running().is_some() {
            let seen = self.events(key).len();
            let held: bool = self
                .link
                .query(&["EXISTS", key])
                .unwrap_or_else(|error| panic!("{caller}: port {port}: {error}"));
            let events = self.events(key);
            if !held {
                let end = events
                    .iter()
                    .rfind(|event| REMOVALS.contains(&event.as_str()));
                assert!(
                    end.is_none_or(|event| event == "del"),
                    "{caller}: port {port}: nobody released {key}, which saw {events:?}"
                );
                return;
            }
            let history = self.with_running(|running| running.history.clone());
            assert!(
                history.wait_more(key, seen, deadline),
                "{caller}: port {port} still holds {key}, which saw {events:?}"
            );
        }
    }
}

fn percent_encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// The events that mean that a key is gone.
const REMOVALS: [&str; 3] = ["del", "expired", "evicted"];
