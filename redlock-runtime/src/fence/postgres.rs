//! PostgreSQL: a function that each transaction calls first.
//!
//! Run [`INSTALL`] with your migrations. A transaction of a lock holder then looks like this, here with
//! `tokio-postgres`:
//!
//! ```text
//! let token = i64::from(lease.fencing_token()?);
//! let transaction = client.transaction().await?;
//! transaction.execute(postgres::GUARD, &[&lease.key(), &token]).await?; // before any read
//! let units: i64 = transaction.query_one("SELECT units FROM stock", &[]).await?.get(0);
//! transaction.execute("UPDATE stock SET units = $1", &[&(units - 1)]).await?;
//! transaction.commit().await?;
//! ```
//!
//! - **Make the call a statement of its own, before the first read**: see the [rules](super#the-rules). Otherwise the
//!   read could be older than the call. Every transaction of a section begins with the call, even one that only
//!   reads.
//! - The call locks its row until the transaction ends. Outside a transaction it guards nothing.
//! - A new holder waits there for an open transaction of the old one. If clients can hang inside a transaction, set
//!   `idle_in_transaction_session_timeout`.
//! - `READ COMMITTED`, the default isolation, is enough. With `REPEATABLE READ` and `SERIALIZABLE` any statement, the
//!   call included, can fail with `40001`. Then run the transaction again, with the same token and the call first.
//! - All users of a resource must reach the table by the same name: mind `search_path`.

/// Creates the table `redlock_fence` and the function `redlock_guard(resource text, token bigint)`. One statement
/// without a result. Safe to run again, also by several programs at the same time.
pub const INSTALL: &str = include_str!("postgres_install.sql");

/// Raises the stored token of resource `$1` to token `$2`, or fails with [`STALE`].
pub const GUARD: &str = "SELECT redlock_guard($1, $2)";

/// The error code (`SQLSTATE`) of a stale token. The transaction has failed: roll it back, and do not retry it.
pub const STALE: &str = "RL001";
