//! The attribute [`#[redis_lock]`](macro@redis_lock) of
//! [redlock-runtime](https://docs.rs/redlock-runtime), which re-exports it. Depend on that crate;
//! this one is of no use alone.
//!
//! An expansion has three phases: `args` and `function` read, `check` compares, `expand` writes.
//! Every mistake of one attribute is reported at once, beside the function as it was.

use proc_macro::TokenStream;

mod args;
mod check;
mod duration;
mod expand;
#[cfg(test)]
mod expansion;
mod function;
#[cfg(test)]
mod fuzz;
mod given;
mod key;
mod mistakes;
mod options;
mod suggest;
mod tokens;

/// Makes a function a critical section: its body runs while a lock in Redis is held, in one process of
/// the fleet at a time.
///
/// ```
/// use redlock_runtime::{LockError, redis_lock};
///
/// struct Order { id: u64 }
///
/// #[redis_lock(key = "order:{order.id}", expire = 5s, wait = 500ms)]
/// async fn pay(order: &Order, amount: u64) -> Result<u64, LockError> {
///     Ok(amount)
/// }
/// ```
///
/// Works on functions, methods, trait methods and default bodies, generic or not. The signature
/// stays as it is written.
///
/// # Arguments
///
/// | argument | value | without it |
/// |---|---|---|
/// | `key = "order:{id}"`, `key = ["a:{x}", "b:{y}"]` | names what is locked; of a list, [all or none](#several-keys) | required |
/// | `expire = 5s` | the lease: how long the lock lasts if it is not renewed; at most the `max_lease` of the builder, 60 s unless it says otherwise | the default of the builder, 5 s |
/// | `wait = 2s` | how long to wait for another holder | one attempt |
/// | `renew` or `renew = 1s` | keeps the lease while the body runs; the interval between renewals, 10 ms or more, by default a third of `expire` | the body ends with its lease; [without `async`](#functions-that-are-not-async), bare `renew` |
/// | `max_hold = 1m` | with `renew`: the longest the body may hold the lock | no limit |
/// | `at_least = 5s` | how long no other call gets the lock, from its acquisition, though the body was quicker; at most `expire`, and not with `reentrant` | released with the end of the body |
/// | `shared` | calls that share the lock run at the same time, in all processes; one that does not runs alone; see [below](#readers-and-writers) | alone |
/// | `permits = 3` | how many calls of the whole fleet have the lock at a time, 1 to 1024: a literal, a constant of type `u32`, or an argument with its fields and methods, such as `limits.exports`; see [below](#permits) | one |
/// | `reentrant` | a call within a body of the same task that holds the same lock joins its lease; see [below](#functions-that-call-each-other) | such a call fails with `LockError::Nested` |
/// | `fair` | the waiters of all processes are served in the order in which they came; for one key, without `permits`. What it costs is at the runtime's `Lock::fair` | in order within a process, turns between processes |
/// | `lease = lease` | a name for the lease in the body: time that remains, `lost()`, `extend()` | none |
/// | `name = "orders.pay"` | what errors call the section | path and name of the function |
/// | `when_held = Ok(())` | what to return while another client holds the lock; see [below](#when-there-is-no-lock) | an error like any other |
/// | `on_error = \|error\| ...` | turns a `LockError` into the return value | `?` on a `Result` |
/// | `via = self.redlock` | which Redlock to use: `Redlock`, a reference or a smart pointer to one | the installed one |
/// | `crate = path` | where the runtime is, if the compiler cannot find `redlock_runtime` in the list of imported crates, because another crate re-exports it | `::redlock_runtime` |
///
/// A duration is one token, `500ms`, `5s`, `1.5m` or `1h`, or the path of a constant of type
/// [`Duration`](std::time::Duration). Such durations are checked while compiling. A number without a
/// unit counts seconds, up to 60. A larger one does not compile, because many libraries count
/// milliseconds.
///
/// A duration that is known only at run time is an argument of that type, a field, or what a method
/// returns:
///
/// ```
/// use redlock_runtime::{LockError, redis_lock};
/// use std::time::Duration;
///
/// struct Job { lease: Duration }
///
/// #[redis_lock(key = "job", expire = job.lease, wait = patience)]
/// async fn run(job: &Job, patience: Duration) -> Result<(), LockError> {
///     Ok(())
/// }
/// ```
///
/// It is evaluated once, after the key and before the body, from borrowed arguments, and cannot be
/// awaited. If it cannot work, the call returns `LockError::Config`, which names the function and the
/// argument.
///
/// # The key
///
/// A literal in the manner of `format!`. Placeholders are arguments, their fields and their methods
/// without arguments, with a format specification if need be: `{id}`, `{self.shop.id}`,
/// `{request.0:05}`, `{user.name()}`. Braces are written twice, `{{` and `}}`.
///
/// Different arguments have different keys. For that, `:` and the punctuation that the template has
/// between its placeholders are percent-encoded within the values, and `%` with them: in
/// `"{shop}:{item}"`, `a:b` and `c` give `a%3Ab:c`, while `a` and `b:c` give `a:b%3Ac`. Numbers and
/// plain words have none of these and stay as they are, and so do uuids unless a `-` separates the
/// placeholders. Two placeholders without punctuation between them, `{a}{b}`, do not compile.
/// `{path!raw}`, or `{path!raw:>5}`, puts a value into the key as it is, next to anything.
/// Constants and statics in the key must be in capitals, and are not encoded either.
///
/// A value that comes out empty is refused, with `LockError::EmptyKey`: it would lock everything
/// that has nothing there. A key that contains `__redlock:`, under which the library keeps its
/// own data, is refused with `LockError::Config`.
///
/// The key is made once, before the body, from references: the body may move or change what the
/// key is made of.
///
/// # Several keys
///
/// ```
/// use redlock_runtime::{LockError, redis_lock};
///
/// #[redis_lock(key = ["account:{from}", "account:{to}"], wait = 2s)]
/// async fn transfer(from: u64, to: u64, amount: u64) -> Result<(), LockError> {
///     Ok(())
/// }
/// ```
///
/// All of them are locked or none, up to 16, and no order of them can make two calls wait for each
/// other. Two placeholders that give one key lock it once. The runtime's `Redlock::lock_all` says what
/// it costs and what it does not promise. `at_least`, `shared`, `permits` and `fair` are for one key.
///
/// # Readers and writers
///
/// ```
/// use redlock_runtime::{LockError, redis_lock};
///
/// #[redis_lock(key = "report:{day}", shared, wait = 2s)]
/// async fn read_report(day: u32) -> Result<String, LockError> {
///     Ok(format!("report of day {day}"))
/// }
///
/// #[redis_lock(key = "report:{day}", wait = 30s)]
/// async fn write_report(day: u32, text: &str) -> Result<(), LockError> {
///     Ok(())
/// }
/// ```
///
/// Any number of calls that share a lock run at the same time, or one that does not. A writer that waits
/// stops new readers, so neither side starves. The runtime's `Lock::shared` says what it costs and what
/// it does not promise. `shared` is for one key, and not with `at_least`, `permits` or `fair`.
///
/// # Permits
///
/// ```
/// use redlock_runtime::{LockError, redis_lock};
///
/// #[redis_lock(key = "exports", permits = 3, wait = 10s)]
/// async fn export(id: u64) -> Result<u64, LockError> {
///     Ok(id) // Three at a time in the whole fleet, and never more.
/// }
/// ```
///
/// Each permit is a lock of its own, which a majority of nodes decides. The number is the same
/// in all functions and processes with this key: a literal, a constant, or what the arguments have, as for
/// durations. A number from the arguments is checked at each call, which returns `LockError::Config` if it
/// is not 1 to 1024. The runtime's `Lock::permits` says what permits cost, what they do not promise, and why
/// tokens of two permits fence nothing. `permits` is for one key, and not with `at_least`, `shared` or `fair`. A nested call on
/// the same key needs `reentrant`, and then shares the permit.
///
/// # When there is no lock
///
/// The body does not start if the lock cannot be had, and is dropped where it stands if the lock is
/// lost. Then the function returns the `LockError`: by `From<LockError>` if its type is
/// `Result<T, E>`, otherwise by `on_error`, or by an implementation of `FromLockError` for a type of yours.
///
/// ```
/// use redlock_runtime::redis_lock;
///
/// #[redis_lock(key = "report", on_error = |error| { eprintln!("{error}"); None })]
/// async fn report() -> Option<String> {
///     Some("done".to_owned())
/// }
/// ```
///
/// `when_held` is what the function returns if another client still holds the lock after `wait`.
/// Every other error is returned as before, so a job that another replica is running is skipped, and an
/// outage is reported:
///
/// ```
/// use redlock_runtime::{LockError, redis_lock};
///
/// #[redis_lock(key = "job:cleanup", renew, when_held = Ok(()))]
/// async fn clean_up() -> Result<(), LockError> {
///     Ok(())
/// }
/// ```
///
/// Both are evaluated only when they are needed, after the arguments have moved into the body. They
/// can use `self` if it is `&self`, and arguments that are `Copy`, such as shared references.
///
/// # Functions that call each other
///
/// A body that calls a function with its own key would wait for itself, so such a call fails
/// at once with `LockError::Nested`, which names both functions. A function that is `reentrant` joins
/// the lease instead: it runs without asking any node, has the deadline and the fencing token of the
/// outer section, and leaves the release to it.
///
/// ```
/// use redlock_runtime::{LockError, redis_lock};
///
/// #[redis_lock(key = "account:{id}", reentrant)]
/// async fn deposit(id: u64, amount: u64) -> Result<u64, LockError> {
///     Ok(amount)
/// }
///
/// #[redis_lock(key = "account:{id}")]
/// async fn deposit_twice(id: u64, amount: u64) -> Result<u64, LockError> {
///     Ok(deposit(id, amount).await? + deposit(id, amount).await?)
/// }
/// ```
///
/// That holds within one task: a task that the body spawns is on its own, unless it runs in
/// `Lease::scope`. `wait`, `renew` and `max_hold` of a call that joins have no effect. The rest is at
/// `Lock::reentrant`.
///
/// # Functions that are not async
///
/// They block their thread until they have the lock: for Diesel, rayon, threads of one's own, and
/// `spawn_blocking`.
///
/// ```
/// use redlock_runtime::{LockError, redis_lock};
///
/// # struct Connection;
/// # impl Connection { fn set_stock(&mut self, _: u64, _: u32, _: u64) {} }
/// #[redis_lock(key = "stock:{sku}", max_hold = 1m, lease = lease)]
/// fn set_stock(sku: u64, units: u32, connection: &mut Connection) -> Result<(), LockError> {
///     connection.set_stock(sku, units, lease.fencing_token()?.get());
///     Ok(())
/// }
/// ```
///
/// Nothing can stop such a body when its lease ends, so the lease is renewed even without `renew`,
/// for as long as the body runs or until `max_hold`. If the lock is lost nevertheless, the body runs on
/// without it, and learns of that only by asking: `lease.is_held()`, `lease.remaining()`, or
/// `lease.fencing_token()?` before each write. The function returns what its body returns, in any case.
///
/// Called within a task of a tokio runtime, which it would block, the function fails at once with
/// `LockError::Config`. The rest is at `Lock::acquire_blocking` and `Lock::hold_blocking`.
///
/// # Expansion
///
/// ```ignore
/// async fn pay(order: &Order, amount: u64) -> Result<u64, LockError> {
///     static INFO: SectionInfo = SectionInfo::new(name, "order:{order.id}", place, options);
///     inventory::submit! { Registered(&INFO) }
///     let mut section = Section::installed(key, INFO.options(), &INFO); // `key` is made from `order.id`
///     let outcome = {
///         let mut body = pin!(async move { Ok(amount) });
///         match section.acquire().await {
///             Ok(()) => section.hold(body.as_mut()).await,
///             Err(error) => Err(error),
///         }
///         // `body` is destroyed here.
///     };
///     return match outcome { // with `when_held`, after `if is_held(&outcome)`
///         Ok(value) => value,
///         Err(error) => FromLockError::from_lock_error(error),
///     };
///     // `section` is dropped here, which releases the lock.
/// }
/// ```
///
/// If the function is not `async`, the body is a closure, which the section runs once it has the lock.
///
/// Nothing happens before the first poll. The body, its arguments included, is destroyed before the
/// lock is released, on every path: return, `?`, panic, loss of the lock, and cancellation, which is
/// dropping the future. The arguments are destroyed in the order of a plain `async fn`, the last one
/// first. What the body cannot reach is destroyed after the release: an argument `_`, and what a
/// pattern such as `Order { id, .. }` leaves behind. So is an argument that the body does not
/// mention, unless its name begins with `_`.
/// The future is `Send` if that of the plain function is.
///
/// # Other attributes
///
/// Attributes expand from top to bottom, so the one *nearest the function* wraps all the others. Put
/// `#[tracing::instrument]` below `#[redis_lock]` for a span that includes the wait for the lock, and
/// above it for a span of the body alone. Put an attribute that caches results below, so that a hit
/// takes no lock. Both orders work with `#[async_recursion]` and `#[axum::debug_handler]`, and within
/// `#[async_trait]`. An attribute that removes `async`, such as `#[tokio::main]`, goes below.
///
/// # Known at the start
///
/// Every annotated function registers itself with its name, key, arguments and place, whether or not
/// it is ever called. `Builder::install` checks all of them against its settings and fails with each
/// that cannot work, such as an `expire` above `max_lease`; `Redlock::sections` lists them, and says
/// what is not seen. With `via`, or a duration such as `Self::LEASE` or one from the arguments, the check comes
/// with the first call.
///
/// # Cost
///
/// Measured on two cores with `cargo run --release -p redlock-tests --bin attribute_cost`: the
/// future is about 340 bytes larger than that of the plain function, and stores one more copy of each
/// argument that the key uses: pass large ones by reference. The body is polled exactly as often; each poll costs less than 0.2 µs more, for a look at the
/// clock. A call takes as long as one that is written by hand with `Lock::hold`.
///
/// Compiling takes, per function of a thousand and in processor time (the same command with
/// `-- --compile`): `cargo check` 9 ms, where the one by hand takes 5 ms and the plain one 1 ms; a
/// debug build 25 ms, 20 ms and 3 ms. Of that, registration is 1 ms and 2 ms, measured with a hundred
/// functions, and each adds 0.7 KB to a stripped release build. At run time it is one step in a list,
/// before `main`.
///
/// # Limits
///
/// - Not for functions that return `!`, `const fn`, functions that return a future they build by hand,
///   or, if they are not `async`, for `unsafe fn` and `extern fn`, or one that has both `async` and
///   `block_on` in its body.
/// - A `fn` that is not `async` and returns a future inside of another value, such as `Result<BoxFuture, E>`,
///   holds the lock while it makes the future, and not while the future runs.
/// - `#[track_caller]` has no effect on the body of a `fn`.
/// - Within `#[async_trait]`, an argument that is a pattern, such as `Path(id): Path<u64>`, cannot
///   be named in the key: there, the pattern is part of the body.
/// - A duration `Self::LEASE`, or of another type, is checked by `cargo build` but not by
///   `cargo check`.
/// - A second attribute on the function takes a second lock, after the one below it, and holds the one
///   while it waits for the other. For several keys take a list.
/// - A chain of annotated functions that await each other meets the default `recursion_limit` of
///   the compiler at 15, one of plain functions at 32: each is two futures, its own and its body's.
///   `#![recursion_limit = "256"]` at the top of the crate doubles that.
/// - A transaction that was begun outside of the function and is committed after it has returned is
///   committed without the lock. Begin and commit it within the body, so that the lock is taken
///   before it and released after it.
/// - Width and precision, as in `{id:.2}`, can make one text of two values, and so can a type's own
///   `Display`.
/// - Renaming an argument in an editor changes the key, too, if all its placeholders are plain names.
///   Otherwise the compiler reports the old name, and suggests the new one if they are similar.
#[proc_macro_attribute]
pub fn redis_lock(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::redis_lock(args.into(), item.into()).into()
}
