//! Servers are restarted one after the other, empty, under load: no lock is refused that is waited
//! for, and a lock that is renewed lives through it.
//!
//! ```text
//! cargo run --release -p redlock-tests --bin rolling_restart -- [rounds, by default 3]
//! ```
//!
//! Three real servers, ten seconds between two restarts, leases of five seconds (the default), waits
//! of one second. Tells of each restart. Fails if a lock was refused, the renewed one was lost, or a
//! node did not vote again in time for the next restart.

use std::{
    error::Error,
    process::ExitCode,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use redlock_runtime::{LockError, Redlock, Release};
use redlock_tests::Cluster;
use tokio::{task::JoinSet, time::sleep};

const NODES: usize = 3;

/// Between two restarts.
const PAUSE: Duration = Duration::from_secs(10);

/// For each lock of the load.
const WAIT: Duration = Duration::from_secs(1);

/// What is done under a lock of the load.
const WORK: Duration = Duration::from_millis(2);

const CLIENTS: usize = 4;

/// Of each client: two on a key of its own, two on one that all share.
const TASKS: usize = 4;

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let rounds: usize = match std::env::args().nth(1) {
        Some(rounds) => rounds.parse()?,
        None => 3,
    };
    let cluster = Cluster::start(NODES);
    let holder = connect(&cluster).await?;
    let lock = holder.lock("renewed").renew().wait(WAIT);
    let held = lock.acquire().await?;
    let load = Load::start(&cluster).await?;

    let (mut renewed_is_lost, mut is_behind) = (false, false);
    let (mut locks, mut refused) = (0, Vec::new());
    let mut due = Instant::now();
    for restart in 0..rounds * NODES {
        due += PAUSE;
        sleep(due.saturating_duration_since(Instant::now())).await;
        let node = restart % NODES;
        let killed = Instant::now();
        cluster[node].restart();
        let back = until_all_have_all(&load.clients, &holder, killed).await;
        let seen = load.take_seen();
        println!(
            "restart {} of node {node}: votes and has the locks again after {back}; since the one before {}; \
             renewed lock held: {}",
            restart + 1,
            seen.text(),
            held.is_held()
        );
        locks += seen.locks;
        refused.extend(seen.refused);
        renewed_is_lost |= !held.is_held();
        is_behind |= Instant::now() > due + PAUSE;
    }
    sleep(PAUSE).await;
    let seen = load.stop().await?;
    let release = held.release().await;
    println!("in the end {}; the renewed lock: {release:?}", seen.text());
    locks += seen.locks;
    refused.extend(seen.refused);
    println!("in all {locks} locks, {} refused", refused.len());
    for refused in &refused {
        println!("refused: {refused}");
    }
    if is_behind {
        println!("a node did not vote again before the next one was due");
    }
    let is_well =
        refused.is_empty() && !renewed_is_lost && !is_behind && release == Release::Released;
    Ok(ExitCode::from(u8::from(!is_well)))
}

/// A client for which all nodes vote: servers that have just been started do not at first.
async fn connect(cluster: &Cluster) -> Result<Redlock, redlock_runtime::ConfigError> {
    let client = Redlock::builder().nodes(cluster.urls()).build().await?;
    while !votes(&client) {
        sleep(Duration::from_millis(20)).await;
    }
    Ok(client)
}

fn votes(client: &Redlock) -> bool {
    client.nodes().iter().all(|node| node.is_up())
}

/// How long it took until all nodes voted for all clients, and had all locks of the client that holds one.
async fn until_all_have_all(clients: &[Redlock], holder: &Redlock, since: Instant) -> String {
    // Each hears of the end of its connection within this time.
    sleep(Duration::from_millis(200)).await;
    loop {
        let have_all = votes(holder) && holder.health().under_replicated() == 0;
        if have_all && clients.iter().all(votes) {
            return format!("{:.1?}", since.elapsed());
        }
        if since.elapsed() > 9 * PAUSE {
            return "more than 90 s".to_owned();
        }
        sleep(Duration::from_millis(20)).await;
    }
}

#[derive(Default)]
struct Seen {
    locks: usize,
    /// Of the key that all clients share, where the wait is for the others' sections as well.
    longest_shared: Duration,
    /// Of keys that only one client wants.
    longest_own: Duration,
    refused: Vec<String>,
}

impl Seen {
    fn text(&self) -> String {
        format!(
            "{} locks, {} refused, longest wait {:.0?} of a shared key and {:.0?} of others",
            self.locks,
            self.refused.len(),
            self.longest_shared,
            self.longest_own
        )
    }
}

struct Load {
    clients: Vec<Redlock>,
    tasks: JoinSet<()>,
    seen: Arc<Mutex<Seen>>,
    is_over: Arc<AtomicBool>,
}

impl Load {
    async fn start(cluster: &Cluster) -> Result<Self, Box<dyn Error>> {
        let mut load = Self {
            clients: Vec::new(),
            tasks: JoinSet::new(),
            seen: Arc::default(),
            is_over: Arc::default(),
        };
        for number in 0..CLIENTS {
            let client = connect(cluster).await?;
            for task in 0..TASKS {
                let own = (task % 2 == 1).then_some(number);
                load.spawn(client.clone(), own);
            }
            load.clients.push(client);
        }
        Ok(load)
    }

    fn spawn(&mut self, client: Redlock, own: Option<usize>) {
        let key = own.map_or_else(|| "shared".to_owned(), |number| format!("own:{number}"));
        let (seen, is_over) = (Arc::clone(&self.seen), Arc::clone(&self.is_over));
        self.tasks.spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                let asked = Instant::now();
                let locked = section(&client, &key).await;
                let mut seen = seen.lock().expect("no task panics with it");
                match locked {
                    Ok(granted) => {
                        seen.locks += 1;
                        let longest = match own {
                            Some(_) => &mut seen.longest_own,
                            None => &mut seen.longest_shared,
                        };
                        *longest = (*longest).max(granted - asked);
                    }
                    Err(error) => seen.refused.push(error.to_string()),
                }
            }
        });
    }

    /// What has been seen since the last call.
    fn take_seen(&self) -> Seen {
        std::mem::take(&mut self.seen.lock().expect("no task panics with it"))
    }

    async fn stop(mut self) -> Result<Seen, Box<dyn Error>> {
        self.is_over.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended?;
        }
        Ok(self.take_seen())
    }
}

/// One section; when it was granted.
async fn section(client: &Redlock, key: &str) -> Result<Instant, LockError> {
    let guard = client.lock(key).wait(WAIT).acquire().await?;
    let granted = Instant::now();
    sleep(WORK).await;
    drop(guard);
    Ok(granted)
}
