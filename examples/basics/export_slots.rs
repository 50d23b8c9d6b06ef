//! Exports that a supplier's service allows three at a time, whichever process of the fleet makes them:
//! a lock with three permits.
//!
//! ```sh
//! cargo run --release --example export_slots                      # needs no server
//! cargo run --release --example export_slots -- --without-lock    # too many at a time
//!
//! export REDLOCK_NODES=redis://127.0.0.1:7001,redis://127.0.0.1:7002,redis://127.0.0.1:7003
//! mkdir /tmp/service
//! for process in 1 2 3 4; do
//!     cargo run --release --example export_slots -- --service /tmp/service &
//! done
//! ```
//!
//! `--exports 30` is the default.

#[path = "../shared/embedded.rs"]
mod embedded;

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{self, ExitCode},
    time::{Duration, Instant},
};

use redlock_runtime::{Redlock, redis_lock};
use tokio::{task::JoinSet, time::sleep};

use embedded::warn_if_embedded;

/// As many as the service allows.
const MOST: usize = 3;

/// In all processes that lock this key, three at a time and never more.
#[redis_lock(key = "exports", permits = 3, expire = 5s, wait = 30s)]
async fn export(number: usize, service: &Service) -> anyhow::Result<usize> {
    export_without_lock(number, service).await
}

async fn export_without_lock(number: usize, service: &Service) -> anyhow::Result<usize> {
    let connection = service.connect(number)?;
    sleep(Duration::from_millis(20)).await;
    let connections = service.connections()?;
    drop(connection);
    Ok(connections)
}

/// The service: a folder with a file for each connection, outside of all processes.
#[derive(Clone)]
struct Service(PathBuf);

/// Its file goes with it.
struct Connection(PathBuf);

impl Service {
    fn connect(&self, number: usize) -> io::Result<Connection> {
        let connection = self.0.join(format!("{}-{number}", process::id()));
        fs::write(&connection, "")?;
        Ok(Connection(connection))
    }

    fn connections(&self) -> io::Result<usize> {
        Ok(fs::read_dir(&self.0)?.count())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // What is left counts as a connection, which the program then reports.
        let _ = fs::remove_file(&self.0);
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let options = Options::from_args()?;
    // Annotated functions use it from here to the end of `main`.
    let redlock = Redlock::builder()
        .nodes_from_env_or(["memory://a", "memory://b", "memory://c"])
        .install()
        .await?;
    warn_if_embedded(&redlock);
    let own_folder = tempfile::tempdir()?;
    let folder = options.service.as_deref();
    let service = Service(folder.unwrap_or_else(|| own_folder.path()).to_owned());

    let start = Instant::now();
    let (most, failed) = all_exports(&options, &service).await?;
    println!(
        "{} exports, at most {most} at a time, failed {failed}, in {:.2} s",
        options.exports,
        start.elapsed().as_secs_f64()
    );
    let is_wrong = most > MOST || failed > 0;
    Ok(ExitCode::from(u8::from(is_wrong)))
}

/// The most at a time, and how many have failed.
async fn all_exports(options: &Options, service: &Service) -> anyhow::Result<(usize, usize)> {
    let mut exports = JoinSet::new();
    for number in 0..options.exports {
        let service = service.clone();
        let without_lock = options.without_lock;
        exports.spawn(async move {
            match without_lock {
                true => export_without_lock(number, &service).await,
                false => export(number, &service).await,
            }
        });
    }
    let (mut most, mut failed) = (0, 0);
    while let Some(outcome) = exports.join_next().await {
        match outcome? {
            Ok(connections) => most = most.max(connections),
            Err(error) => {
                failed += 1;
                eprintln!("an export failed: {error}");
            }
        }
    }
    Ok((most, failed))
}

struct Options {
    exports: usize,
    without_lock: bool,
    /// The folder that several processes share.
    service: Option<Box<Path>>,
}

impl Options {
    fn from_args() -> Result<Self, lexopt::Error> {
        use lexopt::prelude::*;

        let mut options = Self {
            exports: 30,
            without_lock: false,
            service: None,
        };
        let mut args = lexopt::Parser::from_env();
        while let Some(arg) = args.next()? {
            match arg {
                Long("exports") => options.exports = args.value()?.parse()?,
                Long("without-lock") => options.without_lock = true,
                Long("service") => options.service = Some(PathBuf::from(args.value()?).into()),
                _ => return Err(arg.unexpected()),
            }
        }
        Ok(options)
    }
}
