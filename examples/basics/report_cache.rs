//! A report in two files that many read at the same time, and one rebuilds: one lock, which readers
//! share.
//!
//! ```sh
//! cargo run --release --example report_cache
//!
//! export REDLOCK_NODES=redis://127.0.0.1:7001,redis://127.0.0.1:7002,redis://127.0.0.1:7003
//! cargo run --release --example report_cache    # start it twice: they share the report
//! ```
//!
//! The files are in the directory that `REPORT` names, or in one of the system's temporary directory.
//! Readers run together, in all processes; while the report is rebuilt no reader reads it, and a builder that
//! waits lets no new reader in, so it has its turn however many readers there are.

#[path = "../shared/embedded.rs"]
mod embedded;

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use redlock_runtime::{LockError, Redlock, redis_lock};
use tokio::{fs, task::JoinSet, time::sleep};

use embedded::warn_if_embedded;

const READERS: u32 = 8;
const READS: u32 = 40; // of each reader
const BUILDS: u32 = 10;

/// Readers of this process at this moment, and the most that there have been at once.
static NOW: AtomicU32 = AtomicU32::new(0);
static MOST: AtomicU32 = AtomicU32::new(0);

/// With all other readers. Whether both files are of one build.
#[redis_lock(key = "report", shared, expire = 5s, wait = 30s)]
async fn read(report: &Path) -> anyhow::Result<bool> {
    MOST.fetch_max(NOW.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
    let figures = fs::read_to_string(report.join("figures")).await?;
    sleep(Duration::from_millis(2)).await;
    let total = fs::read_to_string(report.join("total")).await?;
    NOW.fetch_sub(1, Ordering::Relaxed);
    let sum: u64 = figures
        .lines()
        .filter_map(|it| it.parse::<u64>().ok())
        .sum();
    Ok(sum.to_string() == total)
}

/// Alone. It would take minutes if there were more to count, so the lease is renewed.
#[redis_lock(key = "report", expire = 5s, renew, max_hold = 1m, wait = 30s)]
async fn build(report: &Path, seed: u64) -> anyhow::Result<()> {
    let figures: Vec<u64> = (0..100).map(|figure| figure * seed).collect();
    let lines: Vec<String> = figures.iter().map(u64::to_string).collect();
    fs::write(report.join("figures"), lines.join("\n")).await?;
    sleep(Duration::from_millis(5)).await;
    let total: u64 = figures.iter().sum();
    fs::write(report.join("total"), total.to_string()).await?;
    Ok(())
}

async fn reader(report: PathBuf) -> anyhow::Result<u32> {
    let mut torn = 0;
    for _ in 0..READS {
        torn += u32::from(!read(&report).await?);
    }
    Ok(torn)
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let redlock = Redlock::builder()
        .nodes_from_env_or(["memory://a", "memory://b", "memory://c"])
        .install()
        .await?;
    warn_if_embedded(&redlock);
    let report = env::var_os("REPORT").map(PathBuf::from);
    let report = report.unwrap_or_else(|| env::temp_dir().join("redlock-report-cache"));
    fs::create_dir_all(&report).await?;
    build(&report, 1).await?;

    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        readers.spawn(reader(report.clone()));
    }
    for seed in 0..BUILDS {
        build(&report, u64::from(seed)).await?;
        sleep(Duration::from_millis(20)).await;
    }
    let mut torn = 0;
    for reader in readers.join_all().await {
        torn += reader?;
    }
    println!(
        "{} reads, up to {} at once, beside {BUILDS} builds; torn {torn}",
        READERS * READS,
        MOST.load(Ordering::Relaxed)
    );

    // A reader cannot become a builder: two of them would wait for each other.
    let lock = redlock.lock("report").reentrant();
    let shared = redlock
        .lock("report")
        .shared()
        .hold(async |_| lock.acquire().await.err());
    if let Some(LockError::Upgrade(report)) = shared.await? {
        println!(
            "`{}` is shared, so it cannot be had alone within",
            report.key()
        );
    }
    redlock.shutdown(Duration::from_secs(5)).await?;
    Ok(if torn == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
