//! A lock before it is held: its options, and the ways to acquire it.
//!
//! "Cancel-safe", here and in all of this crate, means: a future can be dropped at any await
//! point, and nothing is left behind. Whatever was sent to any node for it is released on every
//! node, by the engine and not by the future.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;

use crate::{
    config::{Options, Renew},
    error::LockError,
    guard::Guard,
    keys::Keys,
    leader::Observation,
    lease::Lease,
    node_set::Shared,
    section::Section,
};

/// A lock that is not held yet: one key or several, and options. [`Redlock::lock`](crate::Redlock::lock) and
/// [`Redlock::lock_all`](crate::Redlock::lock_all) make it. It can be kept and acquired again:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://kept"]).build().await?;
/// let ledger = redlock.lock("ledger").expire(std::time::Duration::from_secs(2));
/// let first = ledger.acquire().await?;
/// assert!(ledger.try_acquire().await.is_err());
/// first.release().await;
/// let second = ledger.acquire().await?;
/// # drop(second);
/// # Ok(())
/// # }
/// ```
///
/// A task that asks for a lock within a body that holds it gets [`LockError::Nested`] at once, unless the lock is
/// [`reentrant`](Self::reentrant).
///
/// # Order of waiters
///
/// - Within a process, waiting tasks get the lock in the order of their calls.
/// - Waiting processes stand in one queue, in the order in which they began to wait or ended their last *turn*. In its
///   turn a process passes the lock from task to task. If others wait, the turn ends after 20 ms, or when the process
///   learns of them, if that is later.
/// - A call without [`wait`](Self::wait), and the first attempt of any call, may take a free lock before the queue.
/// - A [`fair`](Self::fair) lock serves the callers of all processes in the order of their calls instead.
/// - Clients of other libraries stand in no queue: see [`mixed_fleet`](crate::Builder::mixed_fleet).
///
/// The guide lists [what waiting costs](crate::guide::choosing#what-waiting-costs).
///
/// # Options that exclude each other
///
/// Acquiring a lock with two of them fails with [`LockError::Config`]:
///
/// - [`permits`](Self::permits), [`shared`](Self::shared), [`fair`](Self::fair) and [several
///   keys](crate::Redlock::lock_all): at most one of them; `permits`, `shared` and [`weight`](Self::weight) can be set
///   for one of several keys
/// - [`at_least`](Self::at_least) with [`shared`](Self::shared), [`weight`](Self::weight) or several keys, or with
///   [`reentrant`](Self::reentrant): a section that joins leaves the release to the outer one
#[derive(Clone, Debug)]
#[must_use = "a lock is not held before `acquire` is awaited"]
pub struct Lock {
    shared: Arc<Shared>,
    keys: Keys,
    options: Options,
    name: Option<&'static str>,
    value: Option<Arc<str>>,
}

impl Lock {
    pub(crate) const fn new(shared: Arc<Shared>, keys: Keys, options: Options) -> Self {
        Self {
            shared,
            keys,
            options,
            name: None,
            value: None,
        }
    }

    /// Returns a lock on another key with the options of this one: options that were set once serve many keys.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://key"]).build().await?;
    /// let orders = redlock.lock("orders").name("orders.pay").wait(std::time::Duration::from_secs(1));
    /// let guard = orders.key("order:7").acquire().await?;
    /// assert_eq!(guard.key(), "order:7");
    /// # Ok(())
    /// # }
    /// ```
    pub fn key(&self, key: impl AsRef<str>) -> Self {
        Self {
            keys: Keys::One(key.as_ref().into()),
            ..self.clone()
        }
    }

    /// Names the section in metrics, events and errors, as `name = ".."` does in the attribute. Without a name, metrics
    /// count it among all sections that have none.
    ///
    /// Use a small set of names: each one creates one time series per metric. Never put parts of the key into it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://name"]).build().await?;
    /// let lock = redlock.lock("order:7").name("orders.pay");
    /// let _guard = lock.acquire().await?;
    /// let error = lock.acquire().await.unwrap_err();
    /// assert_eq!(error.report().and_then(|report| report.name()), Some("orders.pay"));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "label")]
    pub const fn name(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    /// Sets the lease: how long the lock can be trusted. It counts from before the first request is sent. Default: the
    /// lease of the [node set](crate::Builder::expire).
    ///
    /// A task that receives the lock from another task of its process inherits that task's lease, which may already be
    /// up to 50 ms old, or a twentieth of the lease if that is less.
    pub const fn expire(mut self, lease: Duration) -> Self {
        self.options.expire = Some(lease);
        self
    }

    /// Sets how long a call waits for the lock. `Duration::MAX` waits without limit. Default: zero, which is one
    /// attempt outside of the [queue](Self#order-of-waiters).
    ///
    /// A call returns within this time and one node timeout; with [several keys](crate::Redlock::lock_all) or a
    /// [`weight`](Self::weight) later.
    pub const fn wait(mut self, time: Duration) -> Self {
        self.options.wait = time;
        self
    }

    /// Renews the lease every third of it, for as long as the lock is held. The lease must be at least 30 ms, so that
    /// renewals are at least 10 ms apart.
    pub const fn renew(mut self) -> Self {
        self.options.renew = Renew::Default;
        self
    }

    /// Renews the lease at this interval, for as long as the lock is held. The interval must be shorter than the lease,
    /// and at least 10 ms, because each renewal sends a request to every node.
    ///
    /// Each lock is renewed up to an eighth of the interval earlier, so that locks that were acquired together are not
    /// renewed together.
    pub const fn renew_every(mut self, interval: Duration) -> Self {
        self.options.renew = Renew::Every(interval);
        self
    }

    /// Limits how long renewals keep the lock, so that a task that hangs does not hold it for ever. The time counts
    /// from when the lease does, or for [several keys](crate::Redlock::lock_all) from when all are held. At its end the
    /// lock expires. It must be at least the lease; `Duration::MAX` is no limit.
    pub const fn max_hold(mut self, time: Duration) -> Self {
        self.options.max_hold = Some(time);
        self
    }

    /// Keeps the lock for at least this time, however soon the section ends and whatever ends it, the end of the
    /// process included. Use it for a job that every replica starts by its own clock: a replica whose clock is late
    /// finds the lock taken. The time counts from when the call gets the lock, and ends with the lock's first lease at
    /// the latest. Default: none.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://at-least"]).build().await?;
    /// let nightly = redlock.lock("job:nightly").at_least(std::time::Duration::from_secs(5));
    /// nightly.clone().hold(async |_| println!("once a night")).await?;
    /// assert!(matches!(nightly.try_acquire().await, Err(redlock_runtime::LockError::Contended(_))));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - Until the time is over, a call without [`wait`](Self::wait) fails with [`LockError::Contended`], in this process
    ///   too. Once the section has ended, its `retry_after` is the rest. A call that waits gets the lock afterwards, so
    ///   a periodic job must not wait.
    /// - With [`permits`](Self::permits) it is a rate: each permit is kept, so at most that number of sections start
    ///   within the time, over the whole fleet. See [the guide](crate::guide::choosing#a-rate).
    /// - [`Guard::release`] returns as soon as the nodes have confirmed.
    /// - At most [`expire`](Self::expire), because a process that dies cannot make the nodes keep the lock for longer.
    /// - Nodes keep the lock longer by the [drift of clocks](crate#units): choose a time shorter than the period of the
    ///   job by more than that. The time has no [guard band](crate::guarantees#what-cannot-be-guaranteed): a server
    ///   whose clock is stepped forward drops the lock sooner. A restarted server does not.
    /// - Cost: every section takes a round trip to the nodes, also within one process.
    /// - It [excludes some options](Self#options-that-exclude-each-other).
    pub const fn at_least(mut self, time: Duration) -> Self {
        self.options.at_least = Some(time);
        self
    }

    /// Acquires the lock in shared (read) mode: any number of readers hold it at a time, or one exclusive holder, the
    /// *writer*. The guide says [when it is worth it](crate::guide::choosing#shared).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://shared"]).build().await?;
    /// let report = redlock.lock("report");
    /// let reader = report.clone().shared().acquire().await?;
    /// let another = report.clone().shared().acquire().await?;
    /// assert!(report.acquire().await.is_err(), "the writer has to wait for both");
    /// # drop((reader, another));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - A waiting writer blocks new readers: in its own process at once, in others once its request reaches them, a
    ///   [turn](Self#order-of-waiters) or one section later. Current readers finish. Blocked readers start together
    ///   after it: neither side starves. A writer that gives up can delay readers for up to a second.
    /// - For clients of other libraries, a lock that is read is held. They wait while readers overlap without a gap.
    /// - Each reader has its own lease and fencing token. The token is above those of all earlier writers and below
    ///   those of all later ones; overlapping readers have any order. Stores [check it, but do not record
    ///   it](crate::fence#readers).
    /// - Cost: the readers of one process share a key, so most ask no node. Each node keeps an entry per reading
    ///   process. It notifies each of them that another one begins, extends or ends, at most five times a second. Use
    ///   it with up to a thousand processes per key.
    /// - A [`reentrant`](Self::reentrant) exclusive lock within a shared one fails with [`LockError::Upgrade`]. A
    ///   shared one within an exclusive one joins it.
    /// - It [excludes some options](Self#options-that-exclude-each-other).
    #[doc(alias = "read")]
    #[doc(alias = "rwlock")]
    pub const fn shared(mut self) -> Self {
        self.options.shared = true;
        self
    }

    /// Makes a fleet-wide semaphore: at most `permits` holders at a time, from 1 to 1024.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://permits"]).build().await?;
    /// let exports = redlock.lock("exports").permits(2);
    /// let (first, _second) = (exports.acquire().await?, exports.acquire().await?);
    /// assert!(exports.acquire().await.is_err());
    /// first.release().await;
    /// let third = exports.acquire().await?;
    /// # drop(third);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - **There are never more holders than permits.** A majority decides each permit: it is a lock with a lease of
    ///   its own, and a key that no other lock can have, `exports#__redlock:0`, `exports#__redlock:1` and so on.
    /// - All processes must use the same number. If they differ, the largest counts.
    /// - `lock("exports")` is another lock: it neither excludes `lock("exports").permits(1)` nor counts as nested in
    ///   it. A [re-entrant](Self::reentrant) call joins an enclosing permit of a lock with as many permits or fewer.
    /// - Fencing tokens are unique, and rise from holder to holder of *one* permit. Two holders at a time can have them
    ///   in any order, so do not fence a row that holders of several permits write.
    /// - Waiting calls stand in one queue for all permits, in order within a process if their options are the same. Each
    ///   process has a share, the permits divided by the processes, and passes it from task to task. It gives up others
    ///   after 20 ms, and all while another process collects several.
    /// - Without [`wait`](Self::wait), a call asks for one permit, then for those that servers report free, for at most
    ///   one node timeout. It can fail although some permit was free at each moment, if permits change hands meanwhile.
    ///   [`retry_after`](LockError::retry_after) is the earliest end of a permit.
    /// - Cost: one round trip like any lock; if the first permit is taken, a question to one server and a second round
    ///   trip. The requests do not grow with the number of permits, the server's time for the question does. Within a
    ///   process, permits pass on without requests.
    /// - It [excludes some options](Self#options-that-exclude-each-other).
    #[doc(alias = "semaphore")]
    pub const fn permits(mut self, permits: u32) -> Self {
        self.options.permits = Some(permits);
        self
    }

    /// Takes this many of the [permits](Self::permits) at once, from 1 to their number: for a call that needs a larger
    /// part of what they stand for. Default: 1.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://weight"]).build().await?;
    /// let cores = redlock.lock("cores").permits(8);
    /// let large = cores.clone().weight(6).acquire().await?;
    /// assert!(cores.clone().weight(3).acquire().await.is_err(), "two are left");
    /// let small = cores.weight(2).acquire().await?;
    /// # drop((large, small));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - It is one lease with one fencing token, as of [several keys](crate::Redlock::lock_all). It ends when the first
    ///   permit is lost.
    /// - While too few permits are free, a call with [`wait`](Self::wait) collects them one by one, and keeps and renews
    ///   those that it has, unused. Only one call collects at a time, so two cannot wait for each other: it holds the
    ///   key `cores#__redlock:gate` until it has all, and the others wait for that. Calls for one permit do not.
    /// - A call that fails, or is dropped, gives all of them back.
    /// - Without [`wait`](Self::wait), calls that come at the same time can refuse each other.
    /// - Cost: two or three round trips, with a request to each node for each permit and one more. For each permit that
    ///   must be waited for, further round trips.
    /// - A [re-entrant](Self::reentrant) call joins an enclosing one of the same weight or more.
    /// - It [excludes some options](Self#options-that-exclude-each-other).
    #[doc(alias = "acquire_many")]
    pub const fn weight(mut self, permits: u32) -> Self {
        self.options.weight = Some(permits);
        self
    }

    /// Joins the lease of an enclosing body of the same task that holds this lock, instead of failing with
    /// [`LockError::Nested`]. The lock must have the same key and be of the same [`Redlock`](crate::Redlock) or a clone
    /// of it. Only the inner lock needs the option.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://reentrant"]).build().await?;
    /// let inner = redlock.lock("ledger").reentrant();
    /// let outer = redlock.lock("ledger").hold(async |outer| {
    ///     inner.hold(async |lease| lease.fencing_token().ok() == outer.fencing_token().ok()).await
    /// });
    /// assert!(outer.await??, "one lease, one token");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - A section that joins asks no node, has the deadline and token of the outer lease, and releases nothing. Its
    ///   [`wait`](Self::wait), [`renew`](Self::renew) and [`max_hold`](Self::max_hold) have no effect.
    /// - If less than 95 % of its own [`expire`](Self::expire) is left and the lease is not renewed, it first
    ///   [extends](Lease::extend) the lease, to its full length at most, and fails with
    ///   [`NoQuorum`](LockError::NoQuorum) if that fails.
    /// - Sections that join one lease are not exclusive among each other: two in a `join!` interleave.
    /// - Spawned tasks and threads are not within the body, nor is code under a [`Guard`]: run them in
    ///   [`Lease::scope`]. A body that awaits a spawned task, which waits for this lock, hangs until
    ///   [`wait`](Self::wait) or the lease ends. So does a destructor that blocks on the lock while its cancelled body
    ///   is dropped.
    pub const fn reentrant(mut self) -> Self {
        self.options.reentrant = true;
        self
    }

    /// Serves the callers of all processes in the order of their calls. Without it, processes take
    /// [turns](Self#order-of-waiters), and a caller may pass one that called earlier in another process. [Fairness
    /// costs throughput](crate::guide::choosing#fair).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://fair"]).build().await?;
    /// let lock = redlock.lock("seat:12A").fair().wait(std::time::Duration::from_secs(5));
    /// lock.hold(async |_| println!("first come, first served")).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// One node keeps the order. If it is down, does not vote, or is slower than half the node timeout, the next node
    /// takes over; each process reports how long it has waited, so the order stays about the same. The order is not
    /// kept:
    ///
    /// - by callers without `fair`, who may take a free lock: use `fair` for all sections of a key or for none
    /// - exactly, among callers that came within 50 ms, four round trips and 1 % of their wait of each other
    /// - for a process that has died or is paused: others pass it after [a few round
    ///   trips](crate::guide::choosing#what-waiting-costs)
    /// - on servers without `CLIENT TRACKING`, and within the random pauses of a [mixed
    ///   fleet](crate::Builder::mixed_fleet)
    ///
    /// A call without [`wait`](Self::wait) fails with [`LockError::Contended`] while others wait, even if the lock is
    /// free. Dropping the future of a call gives up its place. The option [excludes
    /// others](Self#options-that-exclude-each-other).
    #[doc(alias = "fifo")]
    pub const fn fair(mut self) -> Self {
        self.options.fair = true;
        self
    }

    /// Puts a value of up to 256 bytes beside the lock while it is held: an address, a version, a host.
    /// [`Redlock::inspect`](crate::Redlock::inspect) and the program `redlock` show it, and so does
    /// [`Report::value`](crate::Report::value) to another process whose call was refused.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://value"]).build().await?;
    /// let guard = redlock.lock("export").value("10.0.0.7:8080").acquire().await?;
    /// # while redlock.inspect("export").await.holders[0].value.is_none() {}
    /// let found = redlock.inspect("export").await;
    /// assert_eq!(found.holders[0].value.as_deref(), Some("10.0.0.7:8080"));
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - The value is a hint. The nodes have it one request after the lock was acquired, and show it only while the
    ///   lock is this holder's. If that request fails, they have it after the next renewal. A call that fails with
    ///   [`LockError::Contended`] reads it from one node, within its time, if its own lock has a value.
    /// - Everyone who may read the nodes can read it: it is no place for secrets.
    /// - Cost: a request to each node in the background when the lock is acquired, and one round trip for each section,
    ///   also within one process, because otherwise the sections of a [turn](Self#order-of-waiters) would share one
    ///   owner.
    /// - A [`shared`](Self::shared) lock, or a longer value, fails with [`LockError::Config`]. A section that
    ///   [joins](Self::reentrant) another one leaves the value as it is.
    #[doc(alias = "metadata")]
    pub fn value(mut self, value: impl AsRef<str>) -> Self {
        self.value = Some(value.as_ref().into());
        self
    }

    /// Acquires the lock and returns a guard, which releases it when dropped.
    ///
    /// A task that holds the lock in a [`Guard`] and acquires it again **waits for itself**, for as long as
    /// [`wait`](Self::wait) and the lease of the guard last. This is no error, because another task or another branch
    /// of a `join!` may drop the guard. The event [`redlock.self_wait`](crate::guide::monitoring#events) reports it
    /// when the guard is renewed or its lease ends. Under [`hold`](Self::hold) and [`Lease::scope`] the call fails at
    /// once, or [joins](Self::reentrant) if it is `reentrant`.
    ///
    /// # Errors
    /// - [`Contended`](LockError::Contended), [`NoQuorum`](LockError::NoQuorum),
    ///   [`Quarantined`](LockError::Quarantined): the last attempt within `wait` failed.
    /// - [`Nested`](LockError::Nested), [`Upgrade`](LockError::Upgrade): a body of this task holds the lock already, or
    ///   shares it.
    /// - [`Expired`](LockError::Expired), [`Lost`](LockError::Lost): the lock was granted, and its lease ended before
    ///   this future was polled again. [`Released`](LockError::Released): the section to join has ended.
    /// - [`Config`](LockError::Config): options that cannot work, or a reserved key. [`EmptyKey`](LockError::EmptyKey).
    /// - [`Stopped`](LockError::Stopped): the node set was shut down.
    ///
    /// # Cancellation
    /// Cancel-safe.
    // Not an `async fn`: the options would be part of the task of each caller that waits.
    #[doc(alias = "lock")]
    pub fn acquire(&self) -> impl Future<Output = Result<Guard, LockError>> + use<> {
        let lock = Box::new(self.clone());
        async move {
            let mut section = {
                let lock = lock; // freed before the lock is waited for
                lock.into_section()
            };
            section.acquire().await?;
            Ok(Guard::new(section))
        }
    }

    /// Acquires the lock if it is free now: makes one attempt, without regard to [`wait`](Self::wait).
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancellation
    /// Cancel-safe.
    pub fn try_acquire(&self) -> impl Future<Output = Result<Guard, LockError>> + use<> {
        self.clone().wait(Duration::ZERO).acquire()
    }

    /// Acquires the lock, runs `body` under it, and releases it. The body is not polled after the deadline of the
    /// lease, nor after the lock is known to be lost: it is dropped at its current `.await`, before the error is
    /// returned.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://hold"]).build().await?;
    /// let sum = redlock
    ///     .lock("ledger")
    ///     .hold(async |lease| {
    ///         assert!(lease.is_held());
    ///         1 + 1
    ///     })
    ///     .await?;
    /// assert_eq!(sum, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). If the lock ended before the body: [`LockError::Lost`], [`LockError::Expired`],
    /// [`LockError::Stopped`], or [`LockError::Released`] for a lease that was joined.
    ///
    /// # Cancellation
    /// Cancel-safe. The body is dropped first, then the lock is released.
    ///
    /// # Panics
    /// Only if the body does. The lock is released while the panic passes.
    // Not an `async fn`: see `acquire`.
    pub fn hold<B: Future>(
        self,
        body: impl FnOnce(Lease) -> B,
    ) -> impl Future<Output = Result<B::Output, LockError>> {
        let lock = Box::new(self);
        async move {
            let mut section = {
                let lock = lock;
                lock.into_section()
            };
            section.acquire().await?;
            let lease = section.lease();
            // What it does before it makes the future belongs to the body.
            let body = section.within(|| body(lease))?;
            section.hold(std::pin::pin!(body)).await
        }
    }

    /// Acquires the lock, runs a `body` that returns a `Result`, and releases the lock: [`hold`](Self::hold) with one
    /// `Result` in place of two. The body's error type must convert from a [`LockError`], as with annotated functions.
    ///
    /// ```
    /// # use redlock_runtime::Redlock;
    /// # async fn charge(_: u64) -> Result<u32, std::io::Error> { Ok(5) }
    /// async fn pay(redlock: &Redlock, order: u64) -> Result<u32, Box<dyn std::error::Error>> {
    ///     let lock = redlock.lock(format!("order:{order}"));
    ///     lock.hold_result(async |_| Ok(charge(order).await?)).await
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = Redlock::builder().nodes(["memory://hold-result"]).build().await?;
    /// # assert_eq!(pay(&redlock, 7).await?, 5);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of the body, and those of [`hold`](Self::hold).
    ///
    /// # Cancellation
    /// As [`hold`](Self::hold).
    ///
    /// # Panics
    /// Only if the body does.
    pub fn hold_result<T, E: From<LockError>, B: Future<Output = Result<T, E>>>(
        self,
        body: impl FnOnce(Lease) -> B,
    ) -> impl Future<Output = Result<T, E>> {
        self.hold(body).map(|held| held?)
    }

    /// Acquires the lock like [`acquire`](Self::acquire), and blocks the thread until it has it: for code that is not
    /// async. The guard does not stop the code under it, so [renew](Self::renew) the lease, or check
    /// [`remaining`](Lease::remaining).
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). Within a task of a tokio runtime, [`LockError::Config`] with
    /// [`BlocksRuntime`](crate::ProblemKind::BlocksRuntime), before any request is sent.
    ///
    /// - `spawn_blocking`, `block_in_place`, and threads that have no runtime or have only entered one, may block.
    /// - Within `tokio::task::unconstrained`, and in tasks of other runtimes, the call blocks the thread.
    /// - In a destructor that runs because a runtime is shut down, it blocks too.
    /// - A node set of a test that works on the only thread of its runtime refuses all such calls.
    pub fn acquire_blocking(&self) -> Result<Guard, LockError> {
        let mut section = self.clone().into_section();
        section.acquire_blocking()?;
        Ok(Guard::new(section))
    }

    /// Acquires the lock, runs `body` on this thread, and releases the lock: [`hold`](Self::hold) for code that is not
    /// async, such as Diesel, rayon, or the closure of `spawn_blocking`.
    ///
    /// ```
    /// # use redlock_runtime::Redlock;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let builder = Redlock::builder().nodes(["memory://hold-blocking"]);
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// let redlock = runtime.block_on(builder.build())?;
    /// let token = redlock.lock("ledger").hold_blocking(|lease| lease.fencing_token())??;
    /// assert!(token.get() > 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// **Nothing can stop the body when the lock is lost.** So the lease is renewed even without
    /// [`renew`](Self::renew), until the body ends or [`max_hold`](Self::max_hold) is over; a lease that it
    /// [joins](Self::reentrant) is renewed only if the outer section renews it. If the lease ends nevertheless, the
    /// body runs on without the lock, and its result is returned. The body must check [`is_held`](Lease::is_held),
    /// [`remaining`](Lease::remaining), or [`fencing_token`](Lease::fencing_token) before each write.
    ///
    /// Everything that runs on this thread meanwhile counts as nested in the body, even an unrelated job that a
    /// work-stealing pool starts there. Such a job must not use the same lock [`reentrant`](Self::reentrant).
    ///
    /// # Errors
    /// As [`acquire_blocking`](Self::acquire_blocking).
    ///
    /// # Panics
    /// Only if the body does. The lock is released while the panic passes.
    pub fn hold_blocking<T>(mut self, body: impl FnOnce(Lease) -> T) -> Result<T, LockError> {
        if self.options.renew == Renew::Never {
            self.options.renew = Renew::Default;
        }
        let mut section = self.into_section();
        section.acquire_blocking()?;
        let lease = section.lease();
        section.within(|| body(lease))
    }

    /// Whoever has it is the leader of a fleet.
    pub(crate) const fn leads(mut self) -> Self {
        self.options.leader = true;
        self
    }

    /// Follows who has it.
    pub(crate) fn observe(&self) -> Observation {
        Observation::new(&self.shared, self.keys.text())
    }

    pub(crate) fn into_section(self) -> Section {
        let named = (self.name, None);
        Section::on(Ok(self.shared), self.keys, self.options, named).showing(self.value)
    }
}

/// A member of [`Redlock::lock_all`](crate::Redlock::lock_all): a key, which is locked exclusively, or a [`Lock`], which
/// can be [`shared`](Lock::shared) or have [`permits`](Lock::permits), also with a [`weight`](Lock::weight). Set all
/// other options on the result:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://kinds"]).build().await?;
/// let (prices, order) = (redlock.lock("prices"), redlock.lock("order:7"));
/// let exports = redlock.lock("exports").permits(3);
/// let all = redlock.lock_all([prices.clone().shared(), order, exports]).renew();
/// let guard = all.acquire().await?;
/// assert!(prices.acquire().await.is_err(), "it is read");
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
///
/// Another holder of the shared key, or of another permit, can have the same token at the same time.
#[derive(Clone, Debug)]
pub struct Member {
    member: redlock_protocol::Member,
    problem: Option<&'static str>,
    /// `None` for a key.
    of: Option<Arc<Shared>>,
}

impl Member {
    pub(crate) fn keys_of(members: impl Iterator<Item = Self>, node_set: &Arc<Shared>) -> Keys {
        Keys::all(members.map(|member| {
            let is_foreign = |of: &Arc<Shared>| !Arc::ptr_eq(of, node_set);
            let foreign = member.of.as_ref().is_some_and(is_foreign);
            let problem = foreign.then_some("`lock_all` has a lock of another node set");
            (member.member, problem.or(member.problem))
        }))
    }
}

impl<K: AsRef<str>> From<K> for Member {
    fn from(key: K) -> Self {
        Self {
            member: redlock_protocol::Member::alone(key.as_ref().into()),
            problem: None,
            of: None,
        }
    }
}

impl From<Lock> for Member {
    fn from(lock: Lock) -> Self {
        Self::from(&lock)
    }
}

impl From<&Lock> for Member {
    fn from(lock: &Lock) -> Self {
        let options = lock.options;
        let of_a_member = Options {
            shared: options.shared,
            permits: options.permits,
            weight: options.weight,
            ..Options::default()
        };
        let has_other = options != of_a_member || lock.name.is_some() || lock.value.is_some();
        let problem = options.first_problem().map(|problem| problem.fact());
        let other = (has_other || lock.keys.several().is_some()).then_some(
            "a member of `lock_all` has no option but `shared`, `permits` and `weight`; set the others on what `lock_all` returns",
        );
        Self {
            member: options.member(Arc::clone(lock.keys.text())),
            problem: problem.or(other),
            of: Some(Arc::clone(&lock.shared)),
        }
    }
}
