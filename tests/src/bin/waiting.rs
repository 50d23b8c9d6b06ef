//! What it costs to wait: requests to all servers, for each second of waiting and for each section.
//!
//! ```text
//! cargo run --release -p redlock-tests --bin waiting -- [seconds for each row, by default 5] [most processes, 100]
//! ```
//!
//! Five real servers. The processes are real ones, too, each with an engine of its own. A request is a script
//! or a read of a key; the commands within a script are not counted.

use std::{
    cell::Cell,
    env,
    error::Error,
    io::{self, BufRead},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use redlock_runtime::{Guard, Lock, Redlock};
use redlock_tests::{Cluster, Worker};
use tokio::task::JoinSet;

const LEASE: Duration = Duration::from_secs(60);

/// Until all that are to wait do, and the connections are at rest.
const SETTLING: Duration = Duration::from_millis(1_500);

#[derive(Clone, Copy)]
struct Fleet {
    kind: &'static str,
    processes: usize,
    tasks: usize,
    /// How long a section takes.
    hold: Duration,
    has_notices: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let ["worker", key, kind, tasks, hold] = args[..] {
        let hold = Duration::from_millis(hold.parse()?);
        return work(key, kind, tasks.parse()?, hold);
    }
    let number = |at: usize, or: u64| args.get(at).map_or(Ok(or), |text| text.parse());
    let (seconds, most) = (number(0, 5)?, number(1, 100)? as usize);
    let bench = Bench {
        cluster: Cluster::start(5),
        window: Duration::from_secs(seconds),
        rows: Cell::new(0),
    };
    bench.nothing_changes(most);
    bench.hand_over(most);
    bench.permits();
    Ok(())
}

struct Bench {
    cluster: Cluster,
    window: Duration,
    /// Each has a key of its own: the processes of the one before were killed.
    rows: Cell<u32>,
}

impl Bench {
    fn nothing_changes(&self, most: usize) {
        println!("| nothing changes: requests a second of one waiting process | scripts | reads |");
        println!("|---|---|---|");
        for (kind, notices) in [
            ("plain", true),
            ("plain", false),
            ("fair", true),
            ("shared", true),
            ("permits 8", true),
            ("permits 64", true),
        ] {
            for processes in [1, 8, 50].into_iter().filter(|it| *it <= most) {
                let fleet = Fleet {
                    kind,
                    processes,
                    tasks: 1,
                    hold: LEASE,
                    has_notices: notices,
                };
                self.rows.update(|row| row + 1);
                let holders = self.hold_all(kind);
                let workers = self.spawn(fleet);
                let ([scripts, reads], sections) = self.measure(&workers);
                assert_eq!(sections, 0, "{kind} was held");
                let each = self.window.as_secs_f64() * processes as f64;
                let notices = if notices { "" } else { ", no notices" };
                println!(
                    "| {kind}{notices}, {processes} wait | {:.1} | {:.1} |",
                    scripts as f64 / each,
                    reads as f64 / each
                );
                drop((workers, holders));
            }
        }
    }

    fn hand_over(&self, most: usize) {
        println!("\n| one task in each process | sections a second | requests for each |");
        println!("|---|---|---|");
        for (kind, hold) in [
            ("plain", 1),
            ("plain", 20),
            ("plain", 300),
            ("fair", 1),
            ("shared", 1),
            ("permits 2", 1),
        ] {
            for processes in [2, 5, 20, 50, 100].into_iter().filter(|it| *it <= most) {
                self.load(Fleet {
                    kind,
                    processes,
                    tasks: 1,
                    hold: Duration::from_millis(hold),
                    has_notices: true,
                });
            }
        }
    }

    fn permits(&self) {
        println!("\n| permits | sections a second | requests for each |");
        println!("|---|---|---|");
        for (kind, processes, tasks, hold) in [
            ("permits 8", 1, 16, 20),
            ("permits 8", 2, 8, 20),
            ("permits 8", 4, 4, 20),
            ("permits 8", 8, 2, 20),
            ("permits 64", 8, 10, 300),
        ] {
            self.load(Fleet {
                kind,
                processes,
                tasks,
                hold: Duration::from_millis(hold),
                has_notices: true,
            });
        }
    }

    /// Sections follow each other.
    fn load(&self, fleet: Fleet) {
        self.rows.update(|row| row + 1);
        let workers = self.spawn(fleet);
        let ([scripts, reads], sections) = self.measure(&workers);
        println!(
            "| {}: {} processes with {}, {} ms | {:.0} | {:.1} |",
            fleet.kind,
            fleet.processes,
            fleet.tasks,
            fleet.hold.as_millis(),
            sections as f64 / self.window.as_secs_f64(),
            (scripts + reads) as f64 / sections as f64
        );
    }

    /// One process that has all there is to be had.
    fn hold_all(&self, kind: &str) -> Worker {
        let (holder, tasks) = match kind {
            "shared" => ("plain", 1),
            kind => (kind, permits(kind).unwrap_or(1)),
        };
        let holder = self.start(holder, tasks as usize, LEASE, true);
        for _ in 0..tasks {
            holder.expect_line("held");
        }
        holder
    }

    fn spawn(&self, fleet: Fleet) -> Vec<Worker> {
        let start = |_| self.start(fleet.kind, fleet.tasks, fleet.hold, fleet.has_notices);
        (0..fleet.processes).map(start).collect()
    }

    fn start(&self, kind: &str, tasks: usize, hold: Duration, has_notices: bool) -> Worker {
        let mut nodes = self.cluster.urls().join(",");
        if !has_notices {
            let rules = ["on", "nopass", "~*", "&*", "+@all", "-client|tracking"];
            for node in self.cluster.iter() {
                node.query::<()>(&[&["ACL", "SETUSER", "deaf"], &rules[..]].concat());
            }
            nodes = nodes.replace("://", "://deaf@");
        }
        let (key, hold) = (format!("row:{}", self.rows.get()), hold.as_millis());
        let args = ["worker", &key, kind, &tasks.to_string(), &hold.to_string()];
        let worker = Worker::of_this_program(&args, &[("REDLOCK_NODES", &nodes)]);
        worker.expect_line("ready");
        worker
    }

    /// The scripts and the reads of one window, and the sections in it.
    fn measure(&self, workers: &[Worker]) -> ([u64; 2], u64) {
        thread::sleep(SETTLING);
        let before = (self.cluster.requests(), sections(workers));
        thread::sleep(self.window);
        let after = (self.cluster.requests(), sections(workers));
        let requests = [0, 1].map(|of| after.0[of] - before.0[of]);
        (requests, after.1 - before.1)
    }
}

fn sections(workers: &[Worker]) -> u64 {
    let done = |worker: &Worker| worker.ask("how many", "done ")[5..].parse::<u64>();
    let done = workers.iter().map(done);
    done.map(|done| done.expect("a number")).sum()
}

fn permits(kind: &str) -> Option<u32> {
    kind.strip_prefix("permits ")?.parse().ok()
}

fn lock(redlock: &Redlock, key: &str, kind: &str) -> Lock {
    let lock = redlock.lock(key).expire(LEASE).wait(Duration::MAX);
    match (kind, permits(kind)) {
        (_, Some(permits)) => lock.permits(permits),
        ("fair", _) => lock.fair(),
        ("shared", _) => lock.shared(),
        _ => lock,
    }
}

/// One process: its tasks have the lock again and again, and it says how often when it is asked.
#[tokio::main(flavor = "current_thread")]
async fn work(key: &str, kind: &str, tasks: usize, hold: Duration) -> Result<(), Box<dyn Error>> {
    let builder = Redlock::builder().assume_fresh(true);
    let redlock = builder.node_timeout(Duration::from_secs(1)).build().await?;
    println!("ready");
    let done = Arc::new(AtomicU64::new(0));
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        let (lock, done) = (lock(&redlock, key, kind), Arc::clone(&done));
        running.spawn(async move {
            loop {
                let guard: Guard = lock.clone().acquire().await.expect("it waits");
                if hold == LEASE {
                    println!("held");
                }
                tokio::time::sleep(hold).await;
                guard.release().await;
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let orders = tokio::task::spawn_blocking(move || {
        for order in io::stdin().lock().lines() {
            if order.is_err() {
                return;
            }
            println!("done {}", done.load(Ordering::Relaxed));
        }
    });
    Ok(orders.await?)
}
