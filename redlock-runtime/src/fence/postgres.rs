//! PostgreSQL: a function that is called first in each transaction.
//!
//! [`INSTALL`] belongs to the migrations. After that, a transaction of a lock holder looks like
//! this, here with `tokio-postgres`:
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
//! - **The call is a statement of its own, and the first one**, so also before the first read: see
//!   the [rules](super#the-rules). In one statement with the read, or after it, the read could be
//!   older than the call. Work that takes several transactions begins each of them with the call,
//!   also one that only reads.
//! - It holds the lock on its row until the transaction ends. Outside a transaction it holds
//!   nothing and guards nothing.
//! - A new holder waits there for a transaction of the old one that is still open. Where a client
//!   can hang inside a transaction, set `idle_in_transaction_session_timeout`.
//! - Isolation: `READ COMMITTED`, the default, is enough. With `REPEATABLE READ` and
//!   `SERIALIZABLE` any statement, the call included, can fail with `40001`; run the transaction
//!   again, as always on those levels, with the same token and the call first.
//! - All users of a resource need the table by the same name: mind `search_path`.

/// Makes the table `redlock_fence` and the function `redlock_guard(resource text, token bigint)`.
/// Can be run again, also by several programs at the same time, and whatever way the driver has for one
/// statement without a result.
pub const INSTALL: &str = include_str!("postgres_install.sql");

/// Raises resource `$1` to token `$2`, or fails with [`STALE`].
pub const GUARD: &str = "SELECT redlock_guard($1, $2)";

/// The error code (`SQLSTATE`) of a stale token. The transaction has failed and can only be rolled
/// back; it must not be retried.
pub const STALE: &str = "RL001";
