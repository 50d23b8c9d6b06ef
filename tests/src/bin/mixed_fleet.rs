//! Clients of another Redlock library (rslock) and of this one want the same lock: who gets it how
//! often, and that no two have it at once.
//!
//! ```text
//! cargo run --release -p redlock-tests --bin mixed_fleet -- [seconds, by default 5]
//! ```
//!
//! Three real servers; a client of each kind with eight workers. Once with
//! `Builder::mixed_fleet(true)`, for which the other library has to get a quarter of the sections, and
//! once without, where it may get next to nothing. Fails if a quarter is missed or updates are lost.

use std::{
    env,
    error::Error,
    process::ExitCode,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use redlock_runtime::Redlock;
use redlock_tests::{Cluster, Counter, Server};
use rslock::LockManager;
use tokio::task::JoinSet;

const KEY: &str = "mixed";

/// Of each client.
const WORKERS: usize = 8;

const LEASE: Duration = Duration::from_secs(10);

/// Longer than any wait that does not fail.
const WAIT: Duration = Duration::from_secs(60);

/// The share of the other library in a mixed fleet.
const QUARTER: f64 = 0.25;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let seconds: u64 = env::args().nth(1).as_deref().unwrap_or("5").parse()?;
    let nodes = Cluster::start(3);
    let mut is_well = true;
    for kind in ["mixed", "plain"] {
        let bank = Server::start();
        let counter = Counter::on(&bank, KEY);
        let both_ready = Barrier::new(2);
        let work = |kind| work(kind, &nodes, &counter, &both_ready, seconds);
        let (ours, theirs) = thread::scope(|scope| {
            let theirs = scope.spawn(|| work("rslock"));
            (work(kind), theirs.join().expect("no worker panics"))
        });
        let tally = counter.tally();
        let share = theirs.in_time as f64 / (ours.in_time + theirs.in_time) as f64;
        println!(
            "{kind}: {} of ours, {} of rslock in {seconds} s: {:.1} % theirs; longest wait {:?} and {:?}; \
             {} sections, {} counted, {} overlaps",
            ours.in_time,
            theirs.in_time,
            share * 100.0,
            ours.longest,
            theirs.longest,
            tally.sections,
            tally.count,
            tally.overlaps,
        );
        let sections = ours.sections + theirs.sections;
        is_well &= tally.overlaps == 0 && tally.count == sections && tally.sections == sections;
        is_well &= kind == "plain" || share >= QUARTER;
    }
    Ok(ExitCode::from(u8::from(!is_well)))
}

/// What one client has done: sections in the time, sections at all, and the longest wait.
#[derive(Default)]
struct Report {
    in_time: i64,
    sections: i64,
    longest: Duration,
}

impl Report {
    fn merge(&mut self, other: &Self) {
        self.in_time += other.in_time;
        self.sections += other.sections;
        self.longest = self.longest.max(other.longest);
    }
}

/// One client, on a runtime of its own.
#[tokio::main]
async fn work(
    kind: &str,
    nodes: &Cluster,
    counter: &Counter,
    both_ready: &Barrier,
    seconds: u64,
) -> Report {
    let client = match kind {
        "rslock" => Client::Theirs(LockManager::new(nodes.urls())),
        kind => {
            let builder = Redlock::builder().nodes(nodes.urls()).assume_fresh(true);
            // Too long for a busy machine to make a healthy node look silent.
            let builder = builder.node_timeout(Duration::from_secs(1));
            let builder = builder.expire(LEASE).mixed_fleet(kind == "mixed");
            Client::Ours(builder.build().await.expect("the servers run"))
        }
    };
    both_ready.wait();
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let (client, counter) = (client.clone(), counter.clone());
        workers.spawn(async move {
            let mut report = Report::default();
            while Instant::now() < until {
                let asked = Instant::now();
                let longest = client.section(&counter, asked).await;
                report.merge(&Report {
                    in_time: i64::from(Instant::now() < until),
                    sections: 1,
                    longest,
                });
            }
            report
        });
    }
    let mut all = Report::default();
    for report in workers.join_all().await {
        all.merge(&report);
    }
    all
}

#[derive(Clone)]
enum Client {
    Ours(Redlock),
    Theirs(LockManager),
}

impl Client {
    /// One section; how long the lock was waited for.
    async fn section(&self, counter: &Counter, asked: Instant) -> Duration {
        match self {
            Self::Ours(redlock) => {
                let lock = redlock.lock(KEY).wait(WAIT);
                let guard = lock.acquire().await.expect("the lock is granted in time");
                let waited = asked.elapsed();
                counter.section().await;
                assert!(guard.is_held(), "a section lasts a few milliseconds");
                guard.release().await;
                waited
            }
            Self::Theirs(manager) => {
                let guard = manager.acquire(KEY, LEASE).await;
                let guard = guard.expect("it tries for as long as it takes");
                let waited = asked.elapsed();
                counter.section().await;
                guard.release().await;
                waited
            }
        }
    }
}
