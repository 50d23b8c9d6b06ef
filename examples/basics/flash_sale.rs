//! A flash sale: hundreds of buyers, ten units, and a stock that is read, checked and written
//! in separate steps. One attribute keeps it from being oversold, in one process and in many.
//!
//! ```sh
//! cargo run --release --example flash_sale                      # needs no server
//! cargo run --release --example flash_sale -- --without-lock    # oversells
//!
//! export REDLOCK_NODES=redis://127.0.0.1:7001,redis://127.0.0.1:7002,redis://127.0.0.1:7003
//! cargo run --release --example flash_sale -- --processes 4
//! ```
//!
//! `--buyers 300` and `--stock 10` are the defaults. A longer sale leaves time to kill a server
//! in the middle of it: `--processes 4 --stock 300 --buyers 900`.

#[path = "../shared/embedded.rs"]
mod embedded;

use std::{
    env,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
    time::{Duration, Instant},
};

use anyhow::{bail, ensure};
use redlock_runtime::{Redlock, redis_lock};
use tempfile::NamedTempFile;
use tokio::{process::Command, task::JoinSet, time::sleep};

use embedded::warn_if_embedded;

/// One buyer at a time, among all tasks of all processes that lock this key. Should the lock be
/// lost meanwhile, the body ends at its `.await`, before it writes.
#[redis_lock(key = "stock:{sku}", expire = 5s, wait = 30s)]
async fn buy(sku: &str, stock: &Stock) -> anyhow::Result<Sale> {
    buy_without_lock(stock).await
}

/// Read, check, pay, write. Nothing keeps two buyers from reading the same stock.
async fn buy_without_lock(stock: &Stock) -> anyhow::Result<Sale> {
    let units = stock.read()?;
    if units == 0 {
        return Ok(Sale::SoldOut);
    }
    sleep(Duration::from_millis(10)).await; // the payment
    stock.write(units - 1)?;
    Ok(Sale::Sold { left: units - 1 })
}

enum Sale {
    Sold { left: u64 },
    SoldOut,
}

/// A file as many bytes long as there are units: outside all processes, and no business of the
/// lock servers, which may die.
///
/// Not `tokio::fs`: it writes on another thread, which would go on after the lock is lost.
#[derive(Clone)]
struct Stock(PathBuf);

impl Stock {
    fn read(&self) -> io::Result<u64> {
        Ok(fs::metadata(&self.0)?.len())
    }

    fn write(&self, units: u64) -> io::Result<()> {
        File::options().write(true).open(&self.0)?.set_len(units)
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let options = Options::from_args()?;
    // Annotated functions use it from here to the end of `main`.
    let redlock = Redlock::builder()
        .nodes_from_env_or([
            "memory://a",
            "memory://b",
            "memory://c",
            "memory://d",
            "memory://e",
        ])
        .install()
        .await?;

    if let Some(file) = &options.stock_file {
        // A child of `in_processes`.
        let tally = in_this_process(&options, file).await?;
        println!("{} {} {}", tally.sold, tally.refused, tally.failed);
        return Ok(ExitCode::SUCCESS);
    }

    let (nodes, processes) = (redlock.nodes(), options.processes);
    ensure!(
        processes == 1 || !redlock.is_embedded(),
        "embedded nodes live in one process; for {processes} set REDLOCK_NODES to real ones, such as redis://127.0.0.1:6379"
    );
    warn_if_embedded(&redlock);
    let file = NamedTempFile::new()?;
    Stock(file.path().to_owned()).write(options.stock)?;

    eprintln!("{} buyers want {} units", options.buyers, options.stock);
    let start = Instant::now();
    let (tally, noun) = if processes == 1 {
        (in_this_process(&options, file.path()).await?, "process")
    } else {
        (in_processes(&options, file.path()).await?, "processes")
    };
    println!(
        "sold {} of {}, oversold {}, refused {}, failed {}, in {:.2} s ({processes} {noun}, {} nodes)",
        tally.sold,
        options.stock,
        tally.sold.saturating_sub(options.stock),
        tally.refused,
        tally.failed,
        start.elapsed().as_secs_f64(),
        nodes.len(),
    );
    let wrong = tally.sold != options.stock.min(options.buyers);
    Ok(ExitCode::from(u8::from(wrong)))
}

/// What became of the buyers.
#[derive(Default)]
struct Tally {
    sold: u64,
    /// They came too late: the stock was empty.
    refused: u64,
    /// They came to no answer: no lock within `wait`, or it was lost.
    failed: u64,
}

async fn in_this_process(options: &Options, file: &Path) -> anyhow::Result<Tally> {
    let mut buyers = JoinSet::new();
    for _ in 0..options.buyers {
        let stock = Stock(file.to_owned());
        let without_lock = options.without_lock;
        buyers.spawn(async move {
            if without_lock {
                buy_without_lock(&stock).await
            } else {
                buy("lamp", &stock).await
            }
        });
    }
    let mut tally = Tally::default();
    while let Some(outcome) = buyers.join_next().await {
        match outcome? {
            Ok(Sale::Sold { left }) => {
                tally.sold += 1;
                eprintln!("sold one, {left} left");
            }
            Ok(Sale::SoldOut) => tally.refused += 1,
            Err(error) => {
                tally.failed += 1;
                eprintln!("a buyer failed: {error}");
            }
        }
    }
    Ok(tally)
}

/// Divides the buyers among processes: this program again, with a share of them each.
async fn in_processes(options: &Options, file: &Path) -> anyhow::Result<Tally> {
    let Options {
        buyers, processes, ..
    } = options;
    let mut children = Vec::new();
    for n in 0..*processes {
        let share = buyers * (n + 1) / processes - buyers * n / processes;
        let child = Command::new(env::current_exe()?)
            .args(["--buyers", &share.to_string()])
            .args(options.without_lock.then_some("--without-lock"))
            .arg("--stock-file")
            .arg(file)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        children.push(child);
    }
    let mut sum = Tally::default();
    for child in children {
        let output = child.wait_with_output().await?;
        let counts = String::from_utf8(output.stdout)?;
        let counts: Result<Vec<u64>, _> = counts.split_whitespace().map(str::parse).collect();
        let [sold, refused, failed] = counts?[..] else {
            bail!("a process ended without a tally");
        };
        sum.sold += sold;
        sum.refused += refused;
        sum.failed += failed;
    }
    Ok(sum)
}

struct Options {
    buyers: u64,
    stock: u64,
    processes: u64,
    without_lock: bool,
    /// For the children: the stock of their parent.
    stock_file: Option<PathBuf>,
}

impl Options {
    fn from_args() -> Result<Self, lexopt::Error> {
        use lexopt::prelude::*;

        let mut options = Self {
            buyers: 300,
            stock: 10,
            processes: 1,
            without_lock: false,
            stock_file: None,
        };
        let mut args = lexopt::Parser::from_env();
        while let Some(arg) = args.next()? {
            match arg {
                Long("buyers") => options.buyers = args.value()?.parse()?,
                Long("stock") => options.stock = args.value()?.parse()?,
                Long("processes") => options.processes = args.value()?.parse()?,
                Long("without-lock") => options.without_lock = true,
                Long("stock-file") => options.stock_file = Some(args.value()?.into()),
                _ => return Err(arg.unexpected()),
            }
        }
        Ok(options)
    }
}
