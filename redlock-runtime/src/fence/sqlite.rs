//! SQLite (3.24 or later): a statement that each transaction runs first.
//!
//! Run [`INSTALL`] with your migrations. A transaction of a lock holder then looks like this, here with `rusqlite`:
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
//! The example `fenced_write` is a complete program.
//!
//! - **Run the guard before the first read**: see the [rules](super#the-rules). Every transaction of a section begins
//!   with it, even one that only reads.
//! - The guard writes. So no other connection writes until the transaction ends, and later reads see the latest
//!   state. Outside a transaction it guards nothing.
//! - `SQLITE_BUSY` does not mean stale: begin with `BEGIN IMMEDIATE`, set a `busy_timeout`, and run the transaction
//!   again with the same token.
//! - A failed guard leaves the transaction open. Roll it back.

/// Creates the table `redlock_fence` and its trigger `redlock_guard`. Safe to run again. It has several statements: run
/// it with your driver's `execute_batch` or the like.
pub const INSTALL: &str = include_str!("sqlite_install.sql");

/// Raises the stored token of resource `?1` to token `?2`, or fails with [`STALE`].
pub const GUARD: &str = "INSERT INTO redlock_fence (resource, token) VALUES (?1, ?2) \
     ON CONFLICT (resource) DO UPDATE SET token = excluded.token";

/// The message of the error for a stale token. Its extended code is `SQLITE_CONSTRAINT_TRIGGER`.
pub const STALE: &str = "stale fencing token";
