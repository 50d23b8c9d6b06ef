//! SQLite: a statement that is run first in each transaction.
//!
//! [`INSTALL`] belongs to the migrations. After that, a transaction of a lock holder looks like
//! this, here with `rusqlite`:
//!
//! ```text
//! let token = i64::from(lease.fencing_token()?);
//! let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
//! transaction.execute(sqlite::GUARD, (lease.key(), token))?; // before any read
//! let units: i64 = transaction.query_row("SELECT units FROM stock", (), |row| row.get(0))?;
//! transaction.execute("UPDATE stock SET units = ?1", (units - 1,))?;
//! transaction.commit()?;
//! ```
//!
//! The example `fenced_write` is a program around it.
//!
//! - **The guard comes first, so also before the first read**: see the [rules](super#the-rules).
//!   Work that takes several transactions begins each of them with it, also one that only reads.
//! - It writes, so from then on no other connection writes before the transaction ends, and the
//!   reads that follow are of the latest state. Outside a transaction it guards nothing.
//! - `SQLITE_BUSY` is not staleness: begin with `BEGIN IMMEDIATE`, set a `busy_timeout`, and run
//!   the transaction again with the same token.
//! - A failed guard leaves the transaction open. Roll it back.
//!
//! Needs SQLite 3.24.

/// Makes the table `redlock_fence` and the trigger `redlock_guard` on it. Can be run again. Several
/// statements: use the driver's way for that, such as `execute_batch`.
pub const INSTALL: &str = include_str!("sqlite_install.sql");

/// Raises resource `?1` to token `?2`, or fails with [`STALE`].
pub const GUARD: &str = "INSERT INTO redlock_fence (resource, token) VALUES (?1, ?2) \
     ON CONFLICT (resource) DO UPDATE SET token = excluded.token";

/// The message of the error for a stale token; its extended code is `SQLITE_CONSTRAINT_TRIGGER`.
pub const STALE: &str = "stale fencing token";
