//! Redis or Valkey as the store of the data: a script that checks the token and runs one command.
//!
//! ```text
//! EVAL <GUARDED> 2 {stock:7}:fence {stock:7} <token> GET
//! EVAL <GUARDED> 2 {stock:7}:fence {stock:7} <token> SET 41
//! ```
//!
//! The first key stores the largest token; the other keys are those of the command. The first argument is the token,
//! the second the name of the command, the others follow its keys. With the crate `redis`:
//!
//! ```text
//! let guarded = redis::Script::new(fence::redis::GUARDED);
//! let token = lease.fencing_token()?.get();
//! let units: Option<i64> = guarded
//!     .key("{stock:7}:fence").key("{stock:7}")
//!     .arg(token).arg("GET") // the first read carries the token, too
//!     .invoke_async(&mut connection).await?;
//! let () = guarded
//!     .key("{stock:7}:fence").key("{stock:7}")
//!     .arg(token).arg("SET").arg(units.unwrap_or(0) - 1)
//!     .invoke_async(&mut connection).await?;
//! ```
//!
//! - **The first read carries the token, too**: see the [rules](super#the-rules).
//! - The script runs commands that begin with their keys (`GET`, `MGET`, `HSET`, `INCRBY`, `DEL`, ...; not `MSET`,
//!   `XREAD` or `EVAL`). For others, and for several commands in one step, write a script that begins with [`GUARD`].
//! - In a Redis Cluster, all keys of a call must be in one slot: give them one hash tag, as above.
//! - The key of the token must not expire or be evicted (`noeviction`). Keep it on the server of the data. A failover
//!   that forgets the last writes then forgets the token with them, and the store accepts a late holder until the new
//!   holder comes back.
//! - The store does not have to be a lock node. On a lock node, separate its keys from the lock keys with
//!   [`Builder::key_prefix`](crate::Builder::key_prefix).
//! - The lines above need these rights, and those of other guarded commands. For `EVAL` as at the top, replace the
//!   first two by `+eval`:
//!
//! ```text
//! ~{stock:7}* +evalsha +script|load +get +set
//! ```

/// A Lua script that raises `KEYS[1]` to the token `ARGV[1]` or fails with [`STALE`], then runs the command `ARGV[2]`
/// on the keys from `KEYS[2]` with the arguments from `ARGV[3]`, and returns its reply.
pub const GUARDED: &str = concat!(
    include_str!("redis_guard.lua"),
    include_str!("redis_command.lua")
);

/// The head of your own Lua script: it checks the token `ARGV[1]` against `KEYS[1]` as [`GUARDED`] does. The lines
/// after it run only if the token is not stale. By itself it guards nothing.
pub const GUARD: &str = include_str!("redis_guard.lua");

/// The first word of the error for a stale token.
pub const STALE: &str = "STALEFENCE";
