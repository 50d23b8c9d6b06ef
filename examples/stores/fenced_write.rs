//! A holder that is paused past the end of its lease, and a store that refuses what it writes
//! afterwards. No lock can prevent such a pause; the fencing token is what makes it harmless.
//!
//! ```sh
//! cargo run --release --example fenced_write                       # needs no server
//! cargo run --release --example fenced_write -- --without-fence    # loses a sale
//!
//! export REDLOCK_NODES=redis://127.0.0.1:7001,redis://127.0.0.1:7002,redis://127.0.0.1:7003
//! cargo run --release --example fenced_write
//! ```
//!
//! The store is SQLite. `redlock_runtime::fence` has the same for PostgreSQL and Redis.

#[path = "../shared/embedded.rs"]
mod embedded;

use std::{path::PathBuf, process::ExitCode, sync::mpsc, time::Duration};

use redlock_runtime::{FencingToken, Redlock, fence, redis_lock};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::oneshot;

use embedded::warn_if_embedded;

const UNITS: i64 = 10;

/// Sells one unit, and tells how many are left.
#[redis_lock(key = "stock:{sku}", expire = 1s, wait = 10s, lease = lease)]
async fn sell(sku: &str, stock: Stock, pause: impl FnOnce() + Send) -> anyhow::Result<i64> {
    let token = lease.fencing_token()?;
    // The first read carries the token, too. From here on the store refuses all earlier holders;
    // if only the write did that, one of theirs could still slip in between, and be overwritten.
    let units: i64 = stock.under(lease.key(), token, |transaction| {
        transaction.query_row("SELECT units FROM stock WHERE sku = ?1", [sku], |row| {
            row.get(0)
        })
    })?;

    // Garbage collection, a suspended machine, a blocking call: not an `.await`, where the body
    // would be dropped at the end of the lease.
    pause();

    stock.under(lease.key(), token, |transaction| {
        let sale = "UPDATE stock SET units = ?2 WHERE sku = ?1";
        transaction.execute(sale, (sku, units - 1))
    })?;
    Ok(units - 1)
}

/// A database that knows nothing of lock servers, only tokens.
#[derive(Clone)]
struct Stock {
    file: PathBuf,
    without_fence: bool,
}

impl Stock {
    /// Does `work` in a transaction that fails if a later holder of `resource` has been here.
    fn under<T>(
        &self,
        resource: &str,
        token: FencingToken,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let mut connection = Connection::open(&self.file)?;
        connection.busy_timeout(Duration::from_secs(5))?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if !self.without_fence {
            // Before anything else.
            transaction.execute(fence::sqlite::GUARD, (resource, i64::from(token)))?;
        }
        let done = work(&transaction)?;
        transaction.commit()?;
        Ok(done)
    }

    fn create(&self, sku: &str) -> rusqlite::Result<()> {
        let connection = Connection::open(&self.file)?;
        connection.execute_batch(fence::sqlite::INSTALL)?;
        connection.execute_batch("CREATE TABLE stock (sku TEXT PRIMARY KEY, units INTEGER)")?;
        connection.execute("INSERT INTO stock VALUES (?1, ?2)", (sku, UNITS))?;
        Ok(())
    }

    fn units(&self, sku: &str) -> rusqlite::Result<i64> {
        let query = "SELECT units FROM stock WHERE sku = ?1";
        Connection::open(&self.file)?.query_row(query, [sku], |row| row.get(0))
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let without_fence = without_fence()?;
    let redlock = Redlock::builder()
        .nodes_from_env_or(["memory://a", "memory://b", "memory://c"])
        .install()
        .await?;
    warn_if_embedded(&redlock);
    let directory = tempfile::tempdir()?;
    let stock = Stock {
        file: directory.path().join("stock.db"),
        without_fence,
    };
    stock.create("lamp")?;

    let (tell_paused, paused) = oneshot::channel();
    let (resume, resumed) = mpsc::channel::<()>();
    let first = tokio::spawn(sell("lamp", stock.clone(), move || {
        let _ = tell_paused.send(());
        let _ = resumed.recv(); // blocks the thread
    }));
    paused.await?;
    eprintln!("the first holder has read the stock, and is paused");

    // Gets the lock when the lease of the first holder has ended.
    let left = sell("lamp", stock.clone(), || ()).await?;
    eprintln!("the second holder has sold a unit, {left} left");

    drop(resume);
    let late = first.await?;
    match &late {
        Ok(left) => eprintln!("the first holder has sold a unit, {left} left"),
        Err(error) => eprintln!("the first holder was refused: {error}"),
    }

    let acknowledged = 1 + i64::from(late.is_ok());
    let taken = UNITS - stock.units("lamp")?;
    println!("sold {acknowledged}, taken from the stock {taken}");
    let wrong = late.is_ok() || acknowledged != taken;
    Ok(ExitCode::from(u8::from(wrong)))
}

fn without_fence() -> Result<bool, lexopt::Error> {
    use lexopt::prelude::*;

    let mut without = false;
    let mut args = lexopt::Parser::from_env();
    while let Some(arg) = args.next()? {
        match arg {
            Long("without-fence") => without = true,
            _ => return Err(arg.unexpected()),
        }
    }
    Ok(without)
}
