//! The master that Sentinels name, or the owner of a slot of a Redis Cluster, is one of three nodes and
//! has many successors while processes lock all the time.
//!
//! ```text
//! cargo run --release -p redlock-tests --bin successions -- [sentinels or cluster] [times, by default 10]
//! ```
//!
//! In turn, and so many times each: the master is killed, and comes back empty when another one is named;
//! it is stopped, and goes on then; it is replaced by command. Every other time the next succession begins
//! before the new master votes. What the new master has of the locks is deleted at once, as if it had not been
//! replicated. In a cluster, the owner also gives the slot away and gets it back within a second, while too few
//! servers answer to those who ask for the owner. The replica has not got its last locks, so it has forgotten them.
//!
//! Three processes reach all nodes, and share a key; each also renews a lock. Two processes reach the master and
//! one of the other two nodes each, not the same, and share another key: nothing but the master's vote keeps
//! their sections apart. Fails if sections overlapped, a token did not grow, a renewed lock was lost, or those
//! who reach all nodes were refused a lock. It also fails if a section lost its lock, which a slow machine can
//! cause as well, because then an overlap would prove nothing.

use std::{
    cell::Cell,
    env,
    error::Error,
    io,
    process::ExitCode,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use redlock_runtime::Redlock;
use redlock_tests::{Cluster, Counter, RedisCluster, Sentinel, Server, Worker, redis};
use tokio::time::sleep;

const NAME: &str = "locks";

/// That of `{redlock}`.
const SLOT: u16 = 2_639;

/// The quarantine lasts a little longer.
const LEASE: Duration = Duration::from_secs(5);

/// For each lock of those who reach all nodes.
const WAIT: Duration = Duration::from_secs(5);

/// What is done under a lock by those who do not: it takes longer than a succession.
const WORK: Duration = Duration::from_secs(4);

const PATIENCE: Duration = Duration::from_secs(90);

/// An order that was taken has come to nothing if there is no new master by then.
const AGAIN: Duration = Duration::from_secs(10);

/// The node that has successions, by its place.
const NODE: usize = 2;

const KINDS: [&str; 4] = ["killed", "stopped", "replaced", "replaced and called back"];

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["work", key, of] => work(key, of),
        [topology, times] => succeed(topology, times.parse()?),
        [topology] => succeed(topology, 10),
        _ => Err("sentinels or cluster?".into()),
    }
}

fn succeed(topology: &str, times: usize) -> Result<ExitCode, Box<dyn Error>> {
    let (others, bank, group) = (Cluster::start(2), Server::start(), Group::start(topology));
    let lost = others.proxies();
    for proxy in &lost {
        proxy.refuse();
    }
    let start = |key: &str, of: &str, [first, second]: [String; 2]| {
        let urls = format!("{first},{second},{}", group.url());
        let env = [("REDLOCK_NODES", &*urls), ("COUNTER", &bank.own_url())];
        let worker = Worker::of_this_program(&["work", key, of], &env);
        worker.expect_line("ready");
        worker
    };
    let reached = || [others[0].url(), others[1].url()];
    start("founded", "founder", reached()).wait_success();
    let mut workers = Vec::new();
    for number in ["1", "2", "3"] {
        workers.push(start("whole", number, reached()));
    }
    workers.push(start("split", "left", [others[0].url(), lost[1].url()]));
    workers.push(start("split", "right", [lost[0].url(), others[1].url()]));

    let (mut is_well, split) = (true, Counter::on(&bank, "split"));
    let mut tell = |what: &str, of: &str| {
        let seen: Vec<_> = workers.iter().map(|it| it.ask(of, "seen ")).collect();
        is_well &= seen.iter().all(|seen| seen.ends_with(WELL));
        println!("{what}: {}", seen.join("; "));
    };
    tell("at first", "when it votes");
    let kinds = group.kinds();
    for time in 0..times * kinds.len() {
        let kind = kinds[time % kinds.len()];
        until("a replica", || group.has_replica());
        // What it granted is to be lost.
        let is_hasty = time / kinds.len() % 2 == 1;
        until("a section", || is_hasty || split.tally().inside == 1);
        let (old, since) = (group.master(), Instant::now());
        let old = old.ok_or("no master is named")?;
        let marker = group.marker(old);
        let new = match &group {
            Group::Cluster(cluster) if kind == KINDS[3] => {
                call_back(cluster, old, &split);
                old
            }
            _ => group.succeed(old, kind),
        };
        let took = since.elapsed();
        if !is_hasty {
            until("it is admitted", || group.is_admitted(new, &marker));
        }
        let order = if is_hasty { "now" } else { "when it votes" };
        let what =
            format!("{time}: {old} is {kind}, {new} is master after {took:.1?}, told {order}");
        tell(&what, order);
    }
    tell("in the end", "end");
    for worker in &workers {
        worker.wait_success();
    }
    for key in ["whole", "split"] {
        let tally = Counter::on(&bank, key).tally();
        println!("{key}: {tally:?}");
        is_well &= tally.overlaps == 0 && tally.count == tally.sections && tally.count > 0;
    }
    println!("{}", if is_well { "well" } else { "FAILED" });
    Ok(ExitCode::from(u8::from(!is_well)))
}

/// The servers of one node, and who names the master.
enum Group {
    Sentinels(Cluster, [Sentinel; 3]),
    Cluster(RedisCluster),
}

impl Group {
    fn start(topology: &str) -> Self {
        if topology == "cluster" {
            return Self::Cluster(RedisCluster::start());
        }
        let servers = Cluster::start(2);
        let port = servers[0].port().to_string();
        servers[1].command(&["REPLICAOF", "127.0.0.1", &port]);
        let sentinels = Sentinel::three_for(NAME, &servers[0]);
        Self::Sentinels(servers, sentinels)
    }

    fn kinds(&self) -> &[&str] {
        match self {
            Self::Sentinels(..) => &KINDS[..3],
            Self::Cluster(_) => &KINDS,
        }
    }

    /// Makes another server the master, which has forgotten the locks, and says which one.
    fn succeed(&self, old: usize, kind: &str) -> usize {
        match kind {
            "killed" => self.servers()[old].kill(),
            "stopped" => self.servers()[old].stop(),
            _ => {}
        }
        let (ordered, new) = (Cell::new(None::<Instant>), Cell::new(old));
        until("a new master", || {
            let is_due = ordered.get().is_none_or(|at| at.elapsed() > AGAIN);
            if kind == "replaced" && is_due && self.order(old) {
                ordered.set(Some(Instant::now()));
            }
            new.set(self.master().unwrap_or(old));
            new.get() != old
        });
        until("the locks are forgotten", || self.forget(new.get()));
        match kind {
            "killed" => self.servers()[old].restart(),
            "stopped" => self.servers()[old].cont(),
            _ => {}
        }
        new.get()
    }

    fn servers(&self) -> &[Server] {
        match self {
            Self::Sentinels(servers, _) => servers,
            Self::Cluster(cluster) => cluster,
        }
    }

    fn url(&self) -> String {
        match self {
            Self::Sentinels(_, all) => {
                let hosts = all.each_ref().map(|it| format!("127.0.0.1:{}", it.port()));
                format!("redis+sentinel://{}/{NAME}", hosts.join(","))
            }
            Self::Cluster(cluster) => format!("redis+cluster://{}", cluster.hosts(1..2)),
        }
    }

    /// Which server those name who name masters, if they agree.
    fn master(&self) -> Option<usize> {
        match self {
            Self::Sentinels(servers, all) => {
                let [port, others @ ..] = all.each_ref().map(|it| it.field(NAME, "port"));
                let is_it = |server: &Server| server.port().to_string() == port;
                let place = servers.iter().position(is_it);
                place.filter(|_| others.iter().all(|other| *other == port))
            }
            Self::Cluster(cluster) => Some(cluster.owner(SLOT, 1)),
        }
    }

    /// Who is the master after this one.
    fn replica(&self, master: usize) -> &Server {
        let servers = self.servers();
        &servers[(master + servers.len() / 2) % servers.len()]
    }

    fn has_replica(&self) -> bool {
        let Some(master) = self.master() else {
            return false;
        };
        let info: Option<String> = ask(self.replica(master), &["INFO", "replication"]);
        info.is_some_and(|info| {
            info.contains("role:slave") && info.contains("master_link_status:up")
        })
    }

    /// Whether they take the order to replace this master. They refuse while they do not know that
    /// the replica is ready.
    fn order(&self, master: usize) -> bool {
        match self {
            Self::Sentinels(_, all) => {
                let client = redis::Client::open(all[0].url()).expect("the URL is valid");
                let mut link = client.get_connection().expect("it takes connections");
                let mut order = redis::cmd("SENTINEL");
                order.arg(&["FAILOVER", NAME]).exec(&mut link).is_ok()
            }
            Self::Cluster(_) => {
                let order = ["CLUSTER", "FAILOVER"];
                ask::<String>(self.replica(master), &order).is_some()
            }
        }
    }

    fn key(&self, key: &str) -> String {
        match self {
            Self::Sentinels(..) => key.to_owned(),
            Self::Cluster(_) => format!("{{redlock}}{key}"),
        }
    }

    /// Deletes the locks on a new master.
    fn forget(&self, master: usize) -> bool {
        let keys = ["whole", "split", "renewed:1", "renewed:2", "renewed:3"];
        let mut words = vec!["DEL".to_owned()];
        words.extend(keys.map(|key| self.key(key)));
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        ask::<u64>(&self.servers()[master], &words).is_some()
    }

    /// Whom the marker on this server names.
    fn marker(&self, master: usize) -> Option<String> {
        let words = ["HGET", &self.key("__redlock:node:0"), "server"];
        ask::<Option<String>>(&self.servers()[master], &words).flatten()
    }

    /// Whether the marker on this server names its process, and is another one than this.
    fn is_admitted(&self, master: usize, before: &Option<String>) -> bool {
        let (marker, process) = (self.marker(master), self.servers()[master].run_id());
        marker != *before && marker.is_some_and(|marker| marker.starts_with(&process))
    }
}

/// What the owner granted last is forgotten. Returns when that section is over.
fn call_back(cluster: &RedisCluster, owner: usize, split: &Counter) {
    cluster.sever(owner);
    let begun = split.tally().sections;
    until("a section that is not replicated", || {
        let now = split.tally();
        now.sections > begun && now.inside == 1
    });
    let begun = split.tally().sections;
    cluster.call_back(owner);
    until("the end of a section", || split.tally().sections > begun);
    cluster.rejoin();
}

/// What a server answers that is no error.
fn ask<T: redis::FromRedisValue>(server: &Server, words: &[&str]) -> Option<T> {
    redis::from_redis_value(server.try_command(words).ok()?).ok()
}

#[track_caller]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain for: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// What one process has seen.
#[derive(Default)]
struct Seen {
    locks: usize,
    longest: Duration,
    /// What must not be.
    faults: Vec<String>,
}

type Shared = Arc<Mutex<Seen>>;

const WELL: &str = "faults []";

fn of(seen: &Shared) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One process: tells when asked what it has seen since the last time.
#[tokio::main]
async fn work(key: &str, of_whom: &str) -> Result<ExitCode, Box<dyn Error>> {
    let builder = Redlock::builder().expire(LEASE).max_lease(LEASE);
    // Too long for a busy machine to make a healthy node look silent.
    let builder = builder.node_timeout(Duration::from_secs(1));
    let builder = builder.assume_fresh(of_whom == "founder");
    let redlock = builder.build().await?;
    let seen = Shared::default();
    let reached = if key == "split" { 2 } else { 3 };
    let votes = || {
        let nodes = redlock.nodes();
        nodes[NODE].is_up() && nodes.iter().filter(|node| node.is_up()).count() >= reached
    };
    while !votes() {
        sleep(Duration::from_millis(20)).await;
    }
    println!("ready");
    let mut tasks = Vec::new();
    if key != "founded" {
        tasks.push(tokio::spawn(lock(
            redlock.clone(),
            key.to_owned(),
            Arc::clone(&seen),
        )));
    }
    if key == "whole" {
        let renewed = format!("renewed:{of_whom}");
        tasks.push(tokio::spawn(renew(
            redlock.clone(),
            renewed,
            Arc::clone(&seen),
        )));
    }
    for order in io::stdin().lines() {
        let order = order?;
        let since = Instant::now();
        while order == "when it votes" && !votes() {
            if since.elapsed() > PATIENCE / 2 {
                of(&seen)
                    .faults
                    .push(format!("no vote: {}", redlock.health()));
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
        if order == "end" {
            tasks.drain(..).for_each(|task| task.abort());
        }
        let Seen {
            locks,
            longest,
            faults,
        } = std::mem::take(&mut *of(&seen));
        println!("seen {locks} locks, longest wait {longest:.1?}, faults {faults:?}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Sections without end.
async fn lock(redlock: Redlock, key: String, seen: Shared) {
    let url = env::var("COUNTER").expect("it is set");
    let counter = Counter::at(&url, &key);
    let client = redis::Client::open(url).expect("the URL is valid");
    let mut bank = client.get_connection().expect("it takes connections");
    let is_whole = key == "whole";
    loop {
        let asked = Instant::now();
        let guard = match redlock.lock(&*key).wait(WAIT).acquire().await {
            Ok(guard) => guard,
            // Without the master they have no majority.
            Err(_) if !is_whole => continue,
            Err(error) => {
                of(&seen).faults.push(format!("refused: {error}"));
                continue;
            }
        };
        let waited = asked.elapsed();
        let Ok(token) = guard.fencing_token() else {
            of(&seen).faults.push("no token".to_owned());
            continue;
        };
        let work = async {
            let mut swap = redis::cmd("GETSET");
            swap.arg(format!("token:{key}")).arg(token.get());
            let last: Option<u64> = swap.query(&mut bank).expect("GETSET works");
            sleep(if is_whole { Duration::ZERO } else { WORK }).await;
            last.unwrap_or(0)
        };
        let last = counter.section_with(work).await;
        let was_held = guard.is_held();
        drop(guard);
        let mut seen = of(&seen);
        seen.locks += 1;
        seen.longest = seen.longest.max(waited);
        if last >= token.get() {
            seen.faults.push(format!("token {token} after {last}"));
        }
        if !was_held {
            seen.faults
                .push(format!("{key} was lost or outlasted its lease"));
        }
    }
}

/// A lock for ever.
async fn renew(redlock: Redlock, key: String, seen: Shared) {
    loop {
        let lock = redlock.lock(&*key).renew().max_hold(Duration::MAX);
        let error = match lock.wait(WAIT).acquire().await {
            Ok(guard) => guard.lease().lost().await,
            Err(error) => error,
        };
        of(&seen).faults.push(format!("{key}: {error}"));
    }
}
