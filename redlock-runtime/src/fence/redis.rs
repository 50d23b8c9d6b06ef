//! Redis or Valkey as the store of the data: a script that checks the token and runs one command.
//!
//! ```text
//! EVAL <GUARDED> 2 {stock:7}:fence {stock:7} <token> GET
//! EVAL <GUARDED> 2 {stock:7}:fence {stock:7} <token> SET 41
//! ```
//!
//! The first key keeps the largest token that was seen; the others are the keys of the command.
//! The first argument is the token, the second the name of the command, the rest is what follows
//! its keys. With the crate `redis`:
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
//! - For commands that begin with their keys (`GET`, `MGET`, `HSET`, `INCRBY`, `DEL`, ...; not
//!   `MSET`, `XREAD` or `EVAL`). For others, and for several commands in one step, write a script
//!   that begins with [`GUARD`].
//! - In a Redis Cluster all keys of a call must be in one slot: give them one hash tag, as above.
//! - The key of the token must not expire and must not be evicted (`noeviction`). It is as durable
//!   as the data, if both are on one server: a failover that forgets the last writes forgets the
//!   token with them, and then accepts a late holder until the new one comes back.
//! - The store needs not be a lock node. On a lock node, keep its keys apart from the lock keys
//!   with [`Builder::key_prefix`](crate::Builder::key_prefix).
//! - The store's user needs these rights for the lines above, and those for other commands that are
//!   guarded; for `EVAL` as at the top, `+eval` in place of the first two:
//!
//! ```text
//! ~{stock:7}* +evalsha +script|load +get +set
//! ```

/// Lua: raises `KEYS[1]` to the token `ARGV[1]` or fails with [`STALE`]; then runs the command
/// `ARGV[2]` on the keys from `KEYS[2]` with the arguments from `ARGV[3]`, and returns its answer.
pub const GUARDED: &str = concat!(
    include_str!("redis_guard.lua"),
    include_str!("redis_command.lua")
);

/// Lua: the head of a script of your own, with the same `KEYS[1]` and `ARGV[1]` as [`GUARDED`].
/// What follows it runs only if the token is not stale. By itself it guards nothing.
pub const GUARD: &str = include_str!("redis_guard.lua");

/// The code of the error for a stale token: its first word.
pub const STALE: &str = "STALEFENCE";
