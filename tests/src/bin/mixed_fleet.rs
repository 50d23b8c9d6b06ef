//! Clients of another Redlock library (rslock) and of this one want the same lock: who gets it how
//! often, and that no two have it at once.
//!
//! ```text
//! cargo run --release -p redlock-tests --bin mixed_fleet -- [seconds, by default 5]
//! ```
//!
//! Three real servers; a process of each kind with eight workers. Once with
//! `Builder::mixed_fleet(true)`, for which the other library has to get a quarter of the sections, and
//! once without, where it may get next to nothing. Fails if a quarter is missed or updates are lost.

use std::{
    env,
    error::Error,
    io,
    process::ExitCode,
    time::{Duration, Instant},
};

use redlock_runtime::Redlock;
use redlock_tests::{Cluster, Counter, Server, Worker};
use rslock::LockManager;
use tokio::task::JoinSet;

const KEY: &str = "mixed";

/// Of each process.
const WORKERS: usize = 8;

const LEASE: Duration = Duration::from_secs(10);

/// The harness gives up before this.
const WAIT: Duration = Duration::from_secs(60);

/// The share of the other library in a mixed fleet.
const QUARTER: f64 = 0.25;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["work", kind, seconds] => work(kind, seconds.parse()?).map(|()| ExitCode::SUCCESS),
        [seconds] => compare(seconds.parse()?),
        _ => compare(5),
    }
}

fn compare(seconds: u64) -> Result<ExitCode, Box<dyn Error>> {
    let (nodes, bank) = (Cluster::start(3), Server::start());
    let mut is_well = true;
    for kind in ["mixed", "plain"] {
        bank.command(&["FLUSHALL"]);
        let (urls, counter) = (nodes.url_list(), bank.own_url());
        let env = [("REDLOCK_NODES", &*urls), ("COUNTER", &*counter)];
        let workers = [kind, "rslock"]
            .map(|kind| Worker::of_this_program(&["work", kind, &seconds.to_string()], &env));
        for worker in &workers {
            worker.expect_line("ready");
        }
        for worker in &workers {
            worker.send_line("go");
        }
        let [ours, theirs] = workers.map(|worker| {
            let report = worker.wait_line(|_| true);
            worker.wait_success();
            report
        });
        let (ours, theirs) = (Report::parse(&ours)?, Report::parse(&theirs)?);
        let tally = Counter::on(&bank, KEY).tally();
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

/// What one process has done: sections in the time, sections at all, and the longest wait.
struct Report {
    in_time: i64,
    sections: i64,
    longest: Duration,
}

impl Report {
    fn parse(line: &str) -> Result<Self, Box<dyn Error>> {
        let numbers: Vec<i64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let [in_time, sections, longest] = numbers[..] else {
            return Err(format!("no report: {line}").into());
        };
        Ok(Self {
            in_time,
            sections,
            longest: Duration::from_micros(longest.unsigned_abs()),
        })
    }
}

/// One process.
#[tokio::main]
async fn work(kind: &str, seconds: u64) -> Result<(), Box<dyn Error>> {
    let urls = env::var("REDLOCK_NODES")?;
    let counter = Counter::at(&env::var("COUNTER")?, KEY);
    let client = match kind {
        "rslock" => Client::Theirs(LockManager::new(urls.split(',').collect())),
        kind => {
            let builder = Redlock::builder().assume_fresh(true);
            // Too long for a busy machine to make a healthy node look silent.
            let builder = builder.node_timeout(Duration::from_secs(1));
            let builder = builder.expire(LEASE).mixed_fleet(kind == "mixed");
            Client::Ours(builder.build().await?)
        }
    };
    println!("ready");
    io::stdin().read_line(&mut String::new())?;
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let (client, counter) = (client.clone(), counter.clone());
        workers.spawn(async move {
            let (mut in_time, mut sections, mut longest) = (0, 0, Duration::ZERO);
            while Instant::now() < until {
                let asked = Instant::now();
                let waited = client.section(&counter, asked).await;
                longest = longest.max(waited);
                sections += 1;
                in_time += i64::from(Instant::now() < until);
            }
            (in_time, sections, longest.as_micros())
        });
    }
    let (mut in_time, mut sections, mut longest) = (0, 0, 0);
    for worker in workers.join_all().await {
        in_time += worker.0;
        sections += worker.1;
        longest = longest.max(worker.2);
    }
    println!("{in_time} {sections} {longest}");
    Ok(())
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
