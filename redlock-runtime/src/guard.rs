//! A lock while it is held.

use std::{fmt, ops::Deref, time::Duration};

use redlock_protocol::Event;

use crate::{
    error::LockError,
    lease::{Lease, Release},
    section::Section,
};

/// A held lock. Dropping it releases the lock on every node, wherever and however it is dropped: in or outside a
/// runtime, on a panic, with the task that owned it. The release itself is the engine's work and cannot be cancelled.
/// `std::process::exit` drops nothing: first release the guard, or call
/// [`Redlock::shutdown`](crate::Redlock::shutdown); otherwise the lock stays until its keys expire.
///
/// Dropping does not wait for the nodes: until the release reaches them, another process finds the lock taken. This
/// process sends its later requests after the release. [`release`](Self::release) waits for the nodes.
///
/// **A guard stops no code.** [`Lock::hold`](crate::Lock::hold) and annotated functions drop their body when the lock
/// ends; under a guard, check [`is_held`](Lease::is_held) before each step that must not happen without the lock, or
/// race the work against [`lost`](Lease::lost).
#[must_use = "a lock is released when its guard is dropped"]
pub struct Guard {
    section: Section,
}

impl Guard {
    pub(crate) fn new(section: Section) -> Self {
        if let Ok(asked) = &section.lease.asked {
            asked.own.becomes_guard();
        }
        Self { section }
    }

    /// Returns a view on the lock that can be handed to other tasks. It keeps nothing alive: the lock is released with
    /// the guard.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.section.lease()
    }

    /// Turns an exclusive lock into a [shared](crate::Lock::shared) one, without a gap: no writer comes between, and
    /// readers that wait may enter. The lease begins anew. Returns how long it lasts.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://downgrade"]).build().await?;
    /// let index = redlock.lock("index");
    /// let rebuilt = index.acquire().await?; // Rebuild the index, and then check it beside other readers.
    /// rebuilt.downgrade().await?;
    /// let reader = index.clone().shared().acquire().await?;
    /// assert!(index.acquire().await.is_err(), "a writer waits for both");
    /// # drop(reader);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - **From the call on, this holder is a reader**, whatever the nodes reply: await all writes before. Code in a
    ///   [`scope`](Lease::scope) of the lease is a reader, too.
    /// - The fencing token stays. It is above those of all earlier writers and below those of all later ones, as the
    ///   token of any [reader](crate::fence#readers).
    /// - Each node turns the key into that of a reader in one step. A lock cannot become exclusive again.
    ///
    /// # Errors
    /// - [`LockError::NoQuorum`] if too few nodes confirmed in time: the lock is shared and its old lease continues, but
    ///   readers of other processes may have to wait. The next renewal or extension tells the nodes again.
    /// - [`LockError::Config`] for a lock with [permits](crate::Lock::permits), several keys or
    ///   [`at_least`](crate::Lock::at_least). [`LockError::Nested`] for a guard that has
    ///   [joined](crate::Lock::reentrant) an outer lease. Nothing has changed then.
    /// - Any other error means that the lock is no longer held.
    ///
    /// # Cancellation
    /// The downgrade continues when the future is dropped after its first poll.
    pub async fn downgrade(&self) -> Result<Duration, LockError> {
        let asked = self.asked()?;
        if asked.is_joined() {
            return Err(LockError::Nested(asked.report()));
        }
        self.section.check_can_share()?;
        if !self.is_held() {
            return Err(asked.over_error());
        }
        asked.own.share();
        let section = asked.own.section;
        self.renew(section, Event::Share { section }).await
    }

    /// Releases the lock, and waits for the nodes' replies.
    ///
    /// # Cancellation
    /// The release is sent when this method is called, also if the future is dropped before its first poll.
    pub fn release(self) -> impl Future<Output = Release> + Send {
        self.section.release()
    }

    /// Releases the lock as [`release`](Self::release) does, and blocks the thread until the nodes have
    /// replied. Within a task of an async runtime, and in a test whose node set works on the only thread of its
    /// runtime, it does not wait, and returns [`Release::Unknown`].
    pub fn release_blocking(self) -> Release {
        self.section.release_blocking()
    }
}

impl Deref for Guard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.section.lease
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard").field(&**self).finish()
    }
}
