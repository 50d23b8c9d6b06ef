//! The attribute [`#[redis_lock]`](macro@redis_lock). Depend on [redlock-runtime](https://docs.rs/redlock-runtime),
//! which re-exports it: the expansion needs that crate.
//!
//! An expansion has three phases: the modules `args` and `function` parse, `check` finds mistakes, `expand` writes
//! code. All mistakes of an attribute are reported at once, and the function is kept as it is.

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

/// Makes a function a critical section: its body runs while a lock in Redis is held, in one process of the fleet at a
/// time.
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
/// It works on functions, methods, trait methods and default bodies, generic or not, and leaves the signature as it is.
///
/// # Arguments
///
/// | argument | value | without it |
/// |---|---|---|
/// | `key = "order:{id}"`, `key = ["a:{x}", shared("b")]` | [the key](#the-key), or [several keys](#several-keys): all or none | required |
/// | `expire = 5s` | the lease: how long the lock lasts if it is not renewed; at most `max_lease` of the builder, 60 s by default | `expire` of the builder, 5 s by default |
/// | `wait = 2s` | how long to wait for the lock | one attempt |
/// | `renew` or `renew = 1s` | renews the lease while the body runs; the interval is at least 10 ms, by default a third of `expire` | the body ends with its lease; [without `async`](#functions-that-are-not-async), the lease is renewed all the same |
/// | `max_hold = 1m` | with `renew`: the longest time that the body may hold the lock | no limit |
/// | `at_least = 5s` | keeps the lock for at least this time, even if the body ends sooner; at most `expire`; not with `reentrant` ([`Lock::at_least`]) | the lock is released when the body ends |
/// | `shared` | [readers](#readers-and-writers): runs at the same time as other `shared` calls | exclusive |
/// | `permits = 3` | [how many calls](#permits) of the fleet hold the lock at a time, 1 to 1024: a literal, a `u32` constant, or an expression over the arguments, such as `limits.exports` | one |
/// | `weight = 2` | how many of the `permits` a call takes, a number like that; not with `at_least` ([`Lock::weight`]) | one |
/// | `reentrant` | [joins](#functions-that-call-each-other) the lease of an outer body of the same task | such a call fails with `LockError::Nested` |
/// | `fair` | serves the callers of all processes in the order of their calls; for one key, without `permits` and `shared` ([`Lock::fair`]) | in order within a process, turns between processes |
/// | `leader` | runs the body while this process [leads](#leaders) the fleet, and again when it leads again | the body runs once |
/// | `value = address` | a text beside the lock, up to 256 bytes, which `Redlock::inspect` and observers of a leader show; an expression over the arguments; not with `shared` ([`Lock::value`]) | none |
/// | `lease = lease` | names the lease for the body: `remaining()`, `fencing_token()`, `lost()`, `extend()` | none |
/// | `name = "orders.pay"` | the name of the section in errors and metrics | path and name of the function |
/// | `when_held = Ok(())` | the [return value](#when-there-is-no-lock) if another client holds the lock | the error `LockError::Contended` |
/// | `on_error = \|error\| ...` | [converts](#when-there-is-no-lock) a `LockError` into the return value | `?` on a `Result` |
/// | `via = self.redlock` | the node set: a `Redlock`, or a reference or smart pointer to one | the installed one |
/// | `crate = my_facade::redlock_runtime` | the path of the runtime crate, if you depend on it only through another crate, which has `pub use redlock_runtime;` | `::redlock_runtime`, which rustc reports as an unresolved import if you do not depend on it |
///
/// A duration is a literal such as `500ms`, `5s`, `1.5m` or `1h`, or the path of a constant of type
/// [`Duration`](std::time::Duration), both checked at compile time. A number without unit counts seconds, up to 60.
/// Larger ones do not compile, because many libraries count milliseconds.
///
/// A duration can also be an argument, a field of one, or the result of a method:
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
/// It is evaluated once, after the key and before the body, from borrowed arguments, and cannot be awaited. If it
/// cannot work, the call returns `LockError::Config`, which names the function and the argument.
///
/// # The key
///
/// The key is a literal as in `format!`. A placeholder is an argument, its fields, and methods without arguments, with
/// an optional format: `{id}`, `{self.shop.id}`, `{request.0:05}`, `{user.name()}`. Write braces twice: `{{` and `}}`.
///
/// - **Different arguments give different keys.** Within values, `:`, `%` and the punctuation between the placeholders
///   are percent-encoded: in `"{shop}:{item}"`, `a:b` and `c` give `a%3Ab:c`, while `a` and `b:c` give `a:b%3Ac`.
///   Numbers, plain words and uuids stay as they are, except uuids next to a `-`.
/// - `{a}{b}`, without punctuation between them, does not compile.
/// - `{path!raw}`, or `{path!raw:>5}`, inserts a value without encoding, next to anything.
/// - Constants and statics must be in capitals, and are not encoded.
/// - An empty value fails with `LockError::EmptyKey`; otherwise all calls with an empty value would share one lock.
/// - A key that contains `__redlock:` fails with `LockError::Config`: the library keeps its own data there.
///
/// The key is made once, before the body, from references. The body may move or change the arguments.
///
/// # Several keys
///
/// ```
/// use redlock_runtime::{LockError, redis_lock};
///
/// #[redis_lock(key = ["account:{from}", "account:{to}", shared("rates")], wait = 2s)]
/// async fn transfer(from: u64, to: u64, amount: u64) -> Result<(), LockError> {
///     Ok(())
/// }
/// ```
///
/// Up to 16 keys are locked, all or none, without deadlock whatever their order. Duplicates are locked once, if they are
/// alike. In the list, `shared("a")` shares a key with its other readers. `permits("a", 3)` takes one of its permits, and
/// `permits("a", 3, weight = 2)` two. Not with the arguments `at_least`, `shared`, `permits`, `weight` or `fair`.
/// [`Redlock::lock_all`] describes cost and limits.
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
/// Any number of `shared` calls run at the same time, or one exclusive call. A waiting writer blocks new readers, so
/// neither side starves. Not with `at_least`, `permits` or `fair`. [`Lock::shared`] describes cost and limits.
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
/// All functions and processes with this key must use the same number. A number from the arguments is checked at each
/// call, which fails with `LockError::Config` if it is not 1 to 1024. A nested call on the same key needs `reentrant`,
/// and shares the permit. Not with `shared` or `fair`. [`Lock::permits`] describes cost and limits, and why
/// tokens of two permits fence nothing.
///
/// Together with `at_least` it is a rate: with `permits = 3, at_least = 1s`, at most three calls of the fleet start
/// within a second.
///
/// # Leaders
///
/// ```
/// use redlock_runtime::{LockError, redis_lock};
///
/// # async fn start_jobs(token: u64) -> Result<(), LockError> { Ok(()) }
/// #[redis_lock(key = "scheduler", leader, expire = 2s, lease = lease)]
/// async fn schedule() -> Result<(), LockError> {
///     loop { // On one replica at a time. The next one follows if this one dies.
///         start_jobs(lease.fencing_token()?.get()).await?;
///     }
/// }
/// ```
///
/// The call waits until this process leads, without limit, and then runs the body. When the leadership is lost, the
/// body is dropped at its current `.await`, and the process campaigns again. When the body returns, the process resigns
/// and the call returns its value. Dropping the call's future resigns, too. The call returns an error only if another
/// campaign cannot succeed, for example after a shutdown.
///
/// - The lease is renewed, every third of it or at the interval of `renew`. With `max_hold` another candidate has its
///   turn after that time.
/// - The body runs once for each leadership, so it borrows the arguments: it cannot move one of them elsewhere. They
///   are destroyed after the release.
/// - Only for an `async fn` with one key, and without `wait`, `when_held`, `fair`, `at_least`, `shared`, `permits` and
///   `reentrant`.
///
/// [`Redlock::leader`] does it without the attribute, and its `observe` follows who leads and with which `value`.
///
/// # When there is no lock
///
/// If the lock cannot be acquired, the body does not start. If the lock is lost, the body is dropped at its current
/// `.await`. The function returns the `LockError`: for `Result<T, E>` by `From<LockError>`, otherwise by `on_error`, or
/// by `FromLockError` for your own type.
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
/// With `when_held`, the function returns this value if another client still holds the lock after `wait`. All other
/// errors stay errors: a job that another replica runs is skipped, and an outage is reported.
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
/// `when_held` and `on_error` are evaluated only when needed, after the arguments have moved into the body. They can
/// use `&self`, and arguments that are `Copy`, such as shared references.
///
/// # Functions that call each other
///
/// If a body calls a function with the same key, the inner call would wait for the outer one, which waits for it. So
/// the inner call fails at once with `LockError::Nested`, which names both functions. A `reentrant` function joins the
/// lease instead: it asks no node, has the deadline and the fencing token of the outer section, and leaves the release
/// to it.
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
/// This holds within one task; run tasks that the body spawns in `Lease::scope`. `wait`, `renew` and `max_hold` of a
/// call that joins have no effect. [`Lock::reentrant`] has the rest.
///
/// # Functions that are not async
///
/// A plain `fn` blocks its thread until it has the lock. Use it for Diesel, rayon, your own threads, and
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
/// Nothing can stop such a body when its lease ends. So the lease is renewed even without `renew`, until the body ends
/// or `max_hold` is over. If the lock is lost nevertheless, the body runs on, and its result is returned. It must check
/// `lease.is_held()`, `lease.remaining()`, or `lease.fencing_token()?` before each write.
///
/// Within a task of a tokio runtime, the call fails at once with `LockError::Config`. [`Lock::acquire_blocking`] and
/// [`Lock::hold_blocking`] have the rest.
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
/// - The body of a plain `fn` is a closure, which the section runs when it has the lock.
/// - Nothing happens before the first poll. The future is `Send` if that of the plain function is.
/// - The body, its arguments included, is destroyed before the lock is released, on every path: return, `?`, panic,
///   loss of the lock, and cancellation. Arguments are destroyed in the order of a plain `async fn`, the last one
///   first.
/// - Values that the body cannot reach are destroyed after the release: an argument `_`, the rest of a pattern such as
///   `Order { id, .. }`, and an argument that the body does not mention, unless its name begins with `_`.
///
/// # Other attributes
///
/// Attributes expand from top to bottom, so the one *nearest the function* wraps all the others.
///
/// - `#[tracing::instrument]` below `#[redis_lock]` makes a span that includes the wait for the lock; above it, a span
///   of the body alone.
/// - Put an attribute that caches results below, so that a hit takes no lock.
/// - Put an attribute that removes `async`, such as `#[tokio::main]`, below.
/// - `#[async_recursion]` and `#[axum::debug_handler]` work above and below it; so does `#[tracing::instrument]` within
///   `#[async_trait]`.
///
/// # Known at the start
///
/// Every annotated function registers its name, key, arguments and place, even if it is never called.
/// `Builder::install` checks all of them against its settings. It fails if one cannot work, for example because of an
/// `expire` above `max_lease`; the error lists every such function. [`Redlock::sections`] lists all functions, and
/// names those that are first checked when they are called: with `via`, a duration such as `Self::LEASE`, or one from
/// the arguments.
///
/// # Cost
///
/// Measured on two cores:
///
/// - The future is about 340 bytes larger than that of the plain function, and stores one more copy of each argument in
///   the key: pass large ones by reference.
/// - The body is polled exactly as often. Each poll costs less than 0.2 µs more, to check the clock.
/// - A call takes as long as one written by hand with `Lock::hold`.
///
/// Processor time to compile one function, measured with a thousand functions:
///
/// | | annotated | by hand | plain |
/// |---|---|---|---|
/// | `cargo check` | 9 ms | 5 ms | 1 ms |
/// | debug build | 25 ms | 20 ms | 3 ms |
///
/// For an annotated function, registration takes 1 ms of `cargo check` and 2 ms of the debug build, measured with a
/// hundred functions. Each function adds 0.7 KB to a stripped release build, and one step before `main`, which puts the
/// function into a list.
///
/// # Limits
///
/// - Not for `const fn`, functions that return `!`, or functions that return a future they build by hand. A plain `fn`
///   cannot be an `unsafe fn` or `extern fn`, nor have both `async` and `block_on` in its body.
/// - A plain `fn` that returns a future inside another value, such as `Result<BoxFuture, E>`, holds the lock while it
///   makes the future, and not while the future runs.
/// - `#[track_caller]` has no effect on the body of a plain `fn`.
/// - Within `#[async_trait]`, the key cannot name an argument that is a pattern, such as `Path(id): Path<u64>`: there,
///   the pattern is part of the body.
/// - A duration that is an associated constant, such as `Self::LEASE` or `Limits::LEASE`, is checked by `cargo build`,
///   but not by `cargo check`.
/// - Stacking the attribute takes the locks one after the other, the bottom one first, and can deadlock. Use a list of
///   keys.
/// - A chain of 15 annotated functions that await each other reaches the compiler's default `recursion_limit`, because
///   each is two futures; plain functions reach it at 32. `#![recursion_limit = "256"]` doubles both.
/// - If you begin a transaction outside the function and commit it after the function returned, you commit without the
///   lock. Begin and commit it within the body.
/// - Width and precision, as in `{id:.2}`, and a type's own `Display` can make one text of two values.
/// - Renaming an argument in an editor changes the key too, if all placeholders are plain names. Otherwise the compiler
///   reports the old name, and suggests the new one if they are similar.
///
/// [`Lock::at_least`]: https://docs.rs/redlock-runtime/latest/redlock_runtime/struct.Lock.html#method.at_least
/// [`Lock::fair`]: https://docs.rs/redlock-runtime/latest/redlock_runtime/struct.Lock.html#method.fair
/// [`Lock::shared`]: https://docs.rs/redlock-runtime/latest/redlock_runtime/struct.Lock.html#method.shared
/// [`Lock::permits`]: https://docs.rs/redlock-runtime/latest/redlock_runtime/struct.Lock.html#method.permits
/// [`Lock::weight`]: https://docs.rs/redlock-runtime/latest/redlock_runtime/struct.Lock.html#method.weight
/// [`Lock::reentrant`]: https://docs.rs/redlock-runtime/latest/redlock_runtime/struct.Lock.html#method.reentrant
/// [`Lock::value`]: https://docs.rs/redlock-runtime/latest/redlock_runtime/struct.Lock.html#method.value
/// [`Lock::acquire_blocking`]: https://docs.rs/redlock-runtime/latest/redlock_runtime/struct.Lock.html#method.acquire_blocking
/// [`Lock::hold_blocking`]: https://docs.rs/redlock-runtime/latest/redlock_runtime/struct.Lock.html#method.hold_blocking
/// [`Redlock::leader`]: https://docs.rs/redlock-runtime/latest/redlock_runtime/struct.Redlock.html#method.leader
/// [`Redlock::lock_all`]: https://docs.rs/redlock-runtime/latest/redlock_runtime/struct.Redlock.html#method.lock_all
/// [`Redlock::sections`]: https://docs.rs/redlock-runtime/latest/redlock_runtime/struct.Redlock.html#method.sections
#[proc_macro_attribute]
pub fn redis_lock(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::redis_lock(args.into(), item.into()).into()
}
