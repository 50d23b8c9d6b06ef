//! A lock before it is held: its options, and the ways to acquire it.
//!
//! "Cancel-safe", here and in all of this crate, means: a future can be dropped at any await
//! point, and nothing is left behind. Whatever was sent to any node for it is released on every
//! node, by the engine and not by the future.

use std::{sync::Arc, time::Duration};

use crate::{
    config::{Options, Renew},
    error::LockError,
    guard::Guard,
    keys::Keys,
    lease::Lease,
    node_set::Shared,
    section::Section,
};

/// A lock on one key, or on several, that is not held yet: its options, made by
/// [`Redlock::lock`](crate::Redlock::lock) or [`Redlock::lock_all`](crate::Redlock::lock_all).
///
/// A task that asks for this lock within a body that holds it gets [`LockError::Nested`] at once,
/// unless the lock is [`reentrant`](Self::reentrant).
///
/// Waiting tasks of one process are served in the order in which they asked. The processes that wait stand in one
/// queue, in the order in which they began to wait or ended their last *turn*. In its turn a process passes the
/// lock from task to task, for some 20 ms once it knows that others wait. A [`fair`](Self::fair) lock serves the
/// callers of all processes in the order of their calls instead.
///
/// Unless the lock is fair, a call that does not [`wait`](Self::wait), and the first attempt of one that does, may
/// take a free lock before the processes in the queue. Clients of other libraries take no place in it: see
/// [`mixed_fleet`](crate::Builder::mixed_fleet). The guide says
/// [what waiting costs](crate::guide::choosing#what-waiting-costs).
///
/// A lock can be kept and acquired again:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://kept"]).build().await?;
/// let year = format!("ledger:{}", 2026);
/// let ledger = redlock.lock(&year);
/// let first = ledger.acquire().await?;
/// assert!(ledger.try_acquire().await.is_err());
/// first.release().await;
/// let second = ledger.acquire().await?;
/// # drop(second);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a lock is not held before `acquire` is awaited"]
pub struct Lock {
    shared: Arc<Shared>,
    keys: Keys,
    options: Options,
    name: Option<&'static str>,
}

impl Lock {
    pub(crate) const fn new(shared: Arc<Shared>, keys: Keys, options: Options) -> Self {
        Self {
            shared,
            keys,
            options,
            name: None,
        }
    }

    /// What metrics, events and errors call the section, as `name = ".."` does in the attribute. Without it,
    /// metrics count it among all sections without a name. Names are few and known while compiling, since
    /// each is a series of each metric: not for what is in the key.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://name"]).build().await?;
    /// let lock = redlock.lock("order:7").name("orders.pay");
    /// let _guard = lock.clone().acquire().await?;
    /// let error = lock.acquire().await.unwrap_err();
    /// assert!(error.to_string().contains("orders.pay"));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "label")]
    pub const fn name(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    /// The lease: how long the lock can be trusted, counted from before the first request is
    /// sent. If tasks of this process have the lock one after another, they share that request: it may be
    /// older than the section by 50 ms or a twentieth of the lease, whichever is less. Default: that of
    /// the [node set](crate::Builder::expire).
    pub const fn expire(mut self, lease: Duration) -> Self {
        self.options.expire = Some(lease);
        self
    }

    /// How long to wait for the lock. Default: zero, which is one attempt outside of the [queue](Self).
    /// A call returns within this time and one node timeout, or more for
    /// [several keys](crate::Redlock::lock_all). Without it, a lock with [permits](Self::permits) can take a node
    /// timeout for each. `Duration::MAX` waits without limit.
    pub const fn wait(mut self, time: Duration) -> Self {
        self.options.wait = time;
        self
    }

    /// Renews the lease every third of it, for as long as the lock is held. The lease must be at
    /// least 30 ms, so that renewals come at least 10 ms apart.
    pub const fn renew(mut self) -> Self {
        self.options.renew = Renew::Default;
        self
    }

    /// Renews the lease this often, for as long as the lock is held. Must be shorter than the lease,
    /// and at least 10 ms, because each renewal sends a request to every node. Each lock is renewed
    /// up to an eighth sooner than that, so that many which were acquired together are not renewed
    /// together.
    pub const fn renew_every(mut self, interval: Duration) -> Self {
        self.options.renew = Renew::Every(interval);
        self
    }

    /// The longest time that renewals may keep the lock, counted as the lease is, or for
    /// [several keys](crate::Redlock::lock_all) from when all are held. Then it
    /// expires, so a task that hangs does not hold it for ever. Must be at least the lease;
    /// `Duration::MAX` is no limit.
    pub const fn max_hold(mut self, time: Duration) -> Self {
        self.options.max_hold = Some(time);
        self
    }

    /// The shortest time for which no other caller gets the lock, counted as the lease is, however soon it
    /// is released and whatever ended it: a return, an error, a panic, a cancellation, or the end of the
    /// process. For a job that every replica starts by its own clock: a replica whose clock is late
    /// finds the lock taken, even if the job took no time at all.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://at-least"]).build().await?;
    /// use redlock_runtime::LockError;
    /// use std::time::Duration;
    ///
    /// let nightly = redlock.lock("job:nightly").at_least(Duration::from_secs(5));
    /// nightly.clone().hold(async |_| println!("once a night")).await?;
    /// let again = nightly.try_acquire().await;
    /// assert!(matches!(again, Err(LockError::Contended(_))));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`Guard::release`] returns as soon as the nodes have confirmed, and not when the time is over. Until
    /// the time is over, every acquisition fails with [`LockError::Contended`], in this process as in
    /// others, and its `retry_after` says how long that is. A call that waits gets the lock afterwards, so a
    /// periodic job should not wait. Nodes keep the lock longer by the [drift of clocks](crate#units): choose a
    /// time that is shorter than the period of the job by more than that.
    ///
    /// At most [`expire`](Self::expire), because that is how long the nodes keep the lock if the process dies.
    /// Not with [several keys](crate::Redlock::lock_all), [permits](Self::permits), [`shared`](Self::shared)
    /// or [`reentrant`](Self::reentrant): a section that joins another one leaves the release to that. Not for sections that follow each other fast: each needs a round trip
    /// to the nodes. Default: none.
    ///
    /// The time has no guard band: a server whose clock is stepped forward drops the lock sooner by as
    /// much. Servers that are restarted without their data do not shorten it.
    pub const fn at_least(mut self, time: Duration) -> Self {
        self.options.at_least = Some(time);
        self
    }

    /// Shares the lock with all others that do: any number of *readers* have it at the same time, or one
    /// section without this, the *writer*.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://shared"]).build().await?;
    /// use redlock_runtime::LockError;
    ///
    /// let report = redlock.lock("report");
    /// let reader = report.clone().shared().acquire().await?;
    /// let another = report.clone().shared().acquire().await?;
    /// let writer = report.acquire().await;
    /// assert!(matches!(writer, Err(LockError::Contended(_))));
    /// # drop((reader, another));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Each reader has a lease and a fencing token of its own. Its token is above those of all writers
    /// before it and below those of all writers after it; readers that overlap have theirs in any order.
    /// A store must compare a reader's token as it does a writer's, but must not
    /// [record](crate::fence#readers) it in the same place.
    ///
    /// A writer that waits stops new readers, in its own process at once and in other processes once its
    /// request has reached them, a [turn](Self) or one section later; those that read go on to their end. Readers
    /// that a writer has kept waiting begin together. Neither side starves. A writer that gives up can
    /// keep readers from joining others for up to a second. Clients of other libraries can announce nothing:
    /// while readers overlap without a gap, they wait. For them a lock that is read is a lock that is
    /// held.
    ///
    /// The readers of one process share a key on each node, so most of them ask no node. Use this where
    /// sections that only read are long or frequent; for short ones an exclusive lock costs the same.
    /// Every node keeps a list of the processes that read, 54 bytes for each, and writes it whenever one
    /// of them begins, extends its lease, or ends; each of the others is notified, and reads the list. So this
    /// is for some hundreds of processes that read one key, and any number of tasks.
    ///
    /// Not for [several keys](crate::Redlock::lock_all), nor with [`at_least`](Self::at_least),
    /// [`permits`](Self::permits) or [`fair`](Self::fair). A section
    /// that shares a lock cannot be turned into one that has it alone: a [`reentrant`](Self::reentrant)
    /// section without this in one with it fails with [`LockError::Upgrade`]. The other way round it joins
    /// the writer's lease.
    #[doc(alias = "read")]
    #[doc(alias = "rwlock")]
    pub const fn shared(mut self) -> Self {
        self.options.shared = true;
        self
    }

    /// Lets so many sections of the whole fleet have this lock at a time: a semaphore. From 1 to 1024.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://permits"]).build().await?;
    /// use redlock_runtime::LockError;
    ///
    /// let exports = redlock.lock("exports").permits(2);
    /// let first = exports.clone().acquire().await?;
    /// let second = exports.clone().acquire().await?;
    /// let third = exports.clone().acquire().await;
    /// assert!(matches!(third, Err(LockError::Contended(_))));
    /// first.release().await;
    /// assert!(exports.acquire().await?.is_held() && second.is_held());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Each permit is a lock of its own, with the keys `exports#__redlock:0`, `exports#__redlock:1` and so on on
    /// the nodes, which no other lock can have. A majority of nodes decides each of them. So there are **never more holders than permits**, under the
    /// [guarantees](crate::guarantees) of every lock. (A counter on each of `N` nodes, of which a majority
    /// `q` has to agree, can admit `permits * N / q`.) Each holder has a lease of its own, which is renewed,
    /// lost and released by itself.
    ///
    /// - A call that does not [`wait`](Self::wait) asks for some permit, then for one that the server knows to be
    ///   free, and then for the one that has been taken for longest. It fails with [`LockError::Contended`] if it
    ///   gets none of them. [`retry_after`](LockError::retry_after) is that of the permit that can be free first.
    ///   Permits may pass from holder to holder while it asks, so it can fail although at each moment some permit
    ///   was free.
    /// - A call that waits stands in one queue for all permits, and gets the first one that is free for it. Processes
    ///   follow each other about in the order in which they began to wait. Calls of one process with the same
    ///   options are served in the order in which they asked.
    /// - All processes must name the same number. If they differ, the largest one counts.
    /// - It is another lock than the one without permits: `lock("exports")` does not exclude
    ///   `lock("exports").permits(1)`, and a section of one can be nested in a section of the other. A
    ///   [re-entrant](Lock::reentrant) section joins one around it that has a permit of the same key, of as
    ///   many or fewer.
    ///
    /// [Fencing tokens](Lease::fencing_token) are unique among all holders of all permits. They rise from
    /// holder to holder of *one* permit, but holders of two permits work at the same time, and either
    /// may have the larger token. So a store that refuses a token below the largest it has seen would refuse
    /// holders that are in time: use the token as the name of the section, not to fence a row that holders of
    /// several permits write.
    ///
    /// # Cost
    ///
    /// A free permit costs the round trip that every lock costs, and so much more if the first one that is asked for
    /// is taken: a question to one server, and a round trip to all. Nobody asks for permits that others have, so
    /// what a section costs does not grow with the number of permits. Only the question does: the server reads the
    /// keys of all permits in one command. Within a process a permit passes from one call to the next as other locks
    /// do, without the nodes. Each holder is one key on each node.
    ///
    /// Not for [several keys](crate::Redlock::lock_all), and not with [`at_least`](Self::at_least),
    /// [`shared`](Self::shared) or [`fair`](Self::fair). Acquiring fails with [`LockError::Config`] then, and for
    /// another number of permits.
    #[doc(alias = "semaphore")]
    pub const fn permits(mut self, permits: u32) -> Self {
        self.options.permits = Some(permits);
        self
    }

    /// Within a body of the same task that holds this lock, joins the lease of that body instead of
    /// failing with [`LockError::Nested`]. The same lock is one with the same key of the same
    /// [`Redlock`](crate::Redlock) or a clone of it. Only the inner lock needs the flag.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://reentrant"]).build().await?;
    /// let lock = redlock.lock("ledger").reentrant();
    /// let inner = lock.clone();
    /// let same = lock
    ///     .hold(async |outer| {
    ///         let token = outer.fencing_token()?;
    ///         inner.hold(async |lease| lease.fencing_token().is_ok_and(|it| it == token)).await
    ///     })
    ///     .await??;
    /// assert!(same);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A section that joins asks no node, has the deadline and the fencing token of the lease, and
    /// leaves the release to the section that acquired it. If less than 95 % of its own
    /// [`expire`](Self::expire) is left, it first [extends](Lease::extend) the lease, to its full
    /// length at most, and fails with [`NoQuorum`](LockError::NoQuorum) if that fails. A lease that is
    /// renewed is not extended. [`wait`](Self::wait), [`renew`](Self::renew) and
    /// [`max_hold`](Self::max_hold) have no effect on a section that joins: how long all of them may
    /// last is for the outermost to say. So [`at_least`](Self::at_least) cannot be combined with this.
    ///
    /// Sections of one task that join one lease are not kept apart from each other: of two in a
    /// `join!`, one runs where the other awaits, and those in a [`Lease::scope`] of another task run at
    /// the same time. Tasks and threads that a body starts are not within it, except in
    /// [`Lease::scope`]: if the body awaits a task that waits for the same lock, neither gets on before
    /// that [`wait`](Self::wait) or the lease ends. A [`Guard`] says nothing about what runs while it is
    /// held; that, too, is what [`Lease::scope`] is for. Nor is a body within itself while it is dropped
    /// before its end: a destructor that blocks for the same lock waits in vain.
    pub const fn reentrant(mut self) -> Self {
        self.options.reentrant = true;
        self
    }

    /// Serves the callers of all processes in the order of their calls. Without it processes take
    /// [turns](Self), so a caller may pass one that called earlier in another process.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://fair"]).build().await?;
    /// use std::time::Duration;
    ///
    /// let lock = redlock.lock("seat:12A").fair().wait(Duration::from_secs(5));
    /// lock.hold(async |_| println!("first come, first served")).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// One node keeps the order, the same for all processes that reach it. Each process has one place, that of
    /// its first caller. If the node is down, does not vote, or is slower than half the node timeout, the next one
    /// keeps the order; each process reports how long it has waited, so the order is about the same.
    ///
    /// [It costs throughput](crate::guide::choosing#fair).
    ///
    /// The order is not kept
    /// - by callers without `fair`, who may take a free lock: use it for all sections of a key or for none;
    /// - among callers that came within 50 ms and four round trips of each other: it is about kept, but one that is
    ///   slow to hear of a free lock may be passed;
    /// - for a process that has died or is paused: the others pass it after
    ///   [a few round trips](crate::guide::choosing#what-waiting-costs);
    /// - where servers do not support `CLIENT TRACKING`;
    /// - within the random pauses of a [mixed fleet](crate::Builder::mixed_fleet).
    ///
    /// A call that does not [`wait`](Self::wait) fails with [`LockError::Contended`] while others wait, even if the
    /// lock is free. Dropping the future of a call gives up its place.
    ///
    /// Not for [several keys](crate::Redlock::lock_all) nor with [`permits`](Self::permits). Acquiring fails
    /// with [`LockError::Config`] then.
    #[doc(alias = "fifo")]
    pub const fn fair(mut self) -> Self {
        self.options.fair = true;
        self
    }

    /// Acquires the lock.
    ///
    /// A task that has the lock in a [`Guard`] and asks for it again **waits for itself**, for as long as
    /// [`wait`](Self::wait) and the lease of the guard last. That is no error, because the guard may be in
    /// another task by then, or in another branch of a `join!` that will drop it. If it still is so when the
    /// guard is renewed, or when its lease ends, the event
    /// [`redlock.self_wait`](crate::guide::monitoring#events) says so. [`hold`](Self::hold) and
    /// [`Lease::scope`] make it an error, [`Nested`](LockError::Nested), or a section that
    /// [joins](Self::reentrant).
    ///
    /// # Errors
    /// [`LockError::Contended`], [`NoQuorum`](LockError::NoQuorum) or
    /// [`Quarantined`](LockError::Quarantined) for the last attempt within `wait`;
    /// [`Nested`](LockError::Nested) within a body of this task that holds or shares it, unless this lock is
    /// [re-entrant](Self::reentrant), and then [`Upgrade`](LockError::Upgrade) if it is not shared and that body
    /// shares it;
    /// [`Expired`](LockError::Expired) or [`Lost`](LockError::Lost) if it was granted, and the lease ended before
    /// this future was polled again; [`Released`](LockError::Released) if the section that it joins has ended;
    /// [`Config`](LockError::Config) for options that cannot work, or a key that is reserved;
    /// [`EmptyKey`](LockError::EmptyKey) for an empty key;
    /// [`Stopped`](LockError::Stopped) after a shutdown.
    ///
    /// # Cancellation
    /// Cancel-safe.
    // Not an `async fn`: the options would be part of the task of each caller that waits.
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

    /// Acquires the lock if it is free now: one attempt, whatever [`wait`](Self::wait) says.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancellation
    /// Cancel-safe.
    pub fn try_acquire(&self) -> impl Future<Output = Result<Guard, LockError>> + use<> {
        self.clone().wait(Duration::ZERO).acquire()
    }

    /// Acquires the lock, runs `body` under it, and releases it.
    ///
    /// The body is not polled after the lease's deadline, nor after the lease is known to be
    /// lost: it is dropped where it stands, before the error is returned.
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
    /// As [`acquire`](Self::acquire); and [`LockError::Lost`], [`LockError::Expired`],
    /// [`LockError::Stopped`] or, of a lease that was joined, [`LockError::Released`] if the lock ended
    /// before the body did.
    ///
    /// # Cancellation
    /// Cancel-safe: body first, then the lock.
    ///
    /// # Panics
    /// Only if the body does; the lock is released while the panic passes.
    pub async fn hold<B: Future>(
        self,
        body: impl FnOnce(Lease) -> B,
    ) -> Result<B::Output, LockError> {
        let mut section = self.into_section();
        section.acquire().await?;
        let lease = section.lease().clone();
        // What it does before it makes the future belongs to the body.
        let body = section.within(|| body(lease))?;
        section.hold(std::pin::pin!(body)).await
    }

    /// Acquires the lock as [`acquire`](Self::acquire) does, and blocks the thread until it has it: for
    /// code that is not async. The guard does not stop what runs while it is held, so
    /// [renew](Self::renew) the lease, or look at [`remaining`](Lease::remaining).
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); and [`LockError::Config`] with
    /// [`BlocksRuntime`](crate::ProblemKind::BlocksRuntime) within a task of a tokio runtime, where
    /// nothing is asked of any node. `spawn_blocking`, `block_in_place`, and threads that have no runtime
    /// or have only entered one, may block. Within `tokio::task::unconstrained`, and in the tasks of
    /// other runtimes, it blocks the thread. So does a destructor that runs because a runtime is shut
    /// down; if the node set works on that [runtime](crate::Builder::runtime), it can block for ever. A
    /// node set on a [runtime](crate::Builder::runtime) of one thread refuses all such calls in this way.
    pub fn acquire_blocking(&self) -> Result<Guard, LockError> {
        let mut section = self.clone().into_section();
        section.acquire_blocking()?;
        Ok(Guard::new(section))
    }

    /// Acquires the lock, runs `body` on this thread, and releases the lock: [`hold`](Self::hold) for
    /// code that is not async, such as that of Diesel or rayon, or in `spawn_blocking`.
    ///
    /// ```
    /// # use redlock_runtime::Redlock;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let builder = Redlock::builder().nodes(["memory://hold-blocking"]);
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// let redlock = runtime.block_on(builder.build())?;
    /// let sum = redlock.lock("ledger").hold_blocking(|lease| {
    ///     let token = lease.fencing_token()?; // fails if the lock is not held any more
    ///     Ok::<_, redlock_runtime::LockError>(token.get().min(1) + 1)
    /// })??;
    /// assert_eq!(sum, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// **The body cannot be stopped when the lock is lost**, as an async one is at its next await. For
    /// that reason the lease is renewed even without [`renew`](Self::renew), for as long as the body runs
    /// or until [`max_hold`](Self::max_hold). A lease that it [joins](Self::reentrant) is renewed only if
    /// the section around it says so. If the lease ends nevertheless, because no majority could be reached
    /// or the process was paused, the body runs on without the lock. It learns of that only by
    /// asking: [`is_held`](Lease::is_held), [`remaining`](Lease::remaining), or
    /// [`fencing_token`](Lease::fencing_token) before each write. What it returns is returned, in any
    /// case.
    ///
    /// Whatever runs on this thread while the body runs counts as nested in it, even an unrelated job that a
    /// work-stealing pool begins there. Do not let such jobs ask for the same lock if it is
    /// [`reentrant`](Self::reentrant).
    ///
    /// # Errors
    /// As [`acquire_blocking`](Self::acquire_blocking).
    ///
    /// # Panics
    /// Only if the body does; the lock is released while the panic passes.
    pub fn hold_blocking<T>(mut self, body: impl FnOnce(Lease) -> T) -> Result<T, LockError> {
        if self.options.renew == Renew::Never {
            self.options.renew = Renew::Default;
        }
        let mut section = self.into_section();
        section.acquire_blocking()?;
        let lease = section.lease().clone();
        section.within(|| body(lease))
    }

    pub(crate) fn into_section(self) -> Section {
        Section::new(Ok(self.shared), self.keys, self.options, (self.name, None))
    }
}
