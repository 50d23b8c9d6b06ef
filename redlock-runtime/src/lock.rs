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
    lease::Lease,
    node_set::Shared,
    section::Section,
};

/// A lock on one key that is not held yet: its options, made by
/// [`Redlock::lock`](crate::Redlock::lock).
///
/// Locks are not re-entrant: a task that acquires a lock which it holds waits for itself.
/// Waiting tasks of one process are served in the order in which they asked. Between processes
/// there is no such order. A process that passes the lock from task to task leaves it to other
/// processes after some 25 ms, once it knows that they wait; which of them is next is not
/// defined. Clients of other libraries cannot announce that they wait: see
/// [`mixed_fleet`](crate::Builder::mixed_fleet).
#[derive(Clone, Debug)]
#[must_use = "a lock is not held before `acquire` is awaited"]
pub struct Lock {
    shared: Arc<Shared>,
    key: Arc<str>,
    options: Options,
}

impl Lock {
    pub(crate) const fn new(shared: Arc<Shared>, key: Arc<str>, options: Options) -> Self {
        Self {
            shared,
            key,
            options,
        }
    }

    /// The lease: how long the lock can be trusted, counted from before the first request is
    /// sent. If tasks of this process have the lock one after another, that request may be up to 50 ms
    /// older than the section, and a twentieth of the lease at most. Default: that of the node set,
    /// 5 s.
    pub const fn expire(mut self, lease: Duration) -> Self {
        self.options.expire = Some(lease);
        self
    }

    /// How long to wait for the lock. Default: zero, which is one attempt. A call returns within
    /// this time and one node timeout. `Duration::MAX` waits without limit.
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

    /// The longest time that renewals may keep the lock, counted as the lease is. Then it
    /// expires, so a task that hangs does not hold it for ever. Must be at least the lease;
    /// `Duration::MAX` is no limit.
    pub const fn max_hold(mut self, time: Duration) -> Self {
        self.options.max_hold = Some(time);
        self
    }

    /// Acquires the lock.
    ///
    /// # Errors
    /// [`LockError::Contended`], [`NoQuorum`](LockError::NoQuorum) or
    /// [`Quarantined`](LockError::Quarantined) for the last attempt within `wait`;
    /// [`Config`](LockError::Config) for options that cannot work, or a key that is reserved;
    /// [`EmptyKey`](LockError::EmptyKey) for an empty key;
    /// [`Stopped`](LockError::Stopped) after a shutdown.
    ///
    /// # Cancellation
    /// Cancel-safe.
    pub async fn acquire(self) -> Result<Guard, LockError> {
        let mut section = self.into_section();
        section.acquire().await?;
        Ok(Guard::new(section))
    }

    /// Acquires the lock if it is free now: one attempt, whatever [`wait`](Self::wait) says.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancellation
    /// Cancel-safe.
    pub async fn try_acquire(self) -> Result<Guard, LockError> {
        self.wait(Duration::ZERO).acquire().await
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
    /// As [`acquire`](Self::acquire); and [`LockError::Lost`], [`LockError::Expired`] or
    /// [`LockError::Stopped`] if the lock ended before the body did.
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
        let body = std::pin::pin!(body(section.lease()));
        section.hold(body).await
    }

    pub(crate) fn into_section(self) -> Section {
        Section::new(Ok(self.shared), self.key, self.options, None)
    }
}
