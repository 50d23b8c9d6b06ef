//! The time for which a lock may be trusted, as its holder and others see it.

use std::{
    fmt,
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Duration,
};

pub use redlock_protocol::Release;
use redlock_protocol::{Event, SectionId, Token};

use crate::{
    asked::Asked, config::Options, error::LockError, nesting, observe::Course, script,
    status::Stopped,
};

/// A number that grows with every acquisition of a key; see [`Lease::fencing_token`].
///
/// Tokens of different keys say nothing about each other. They are no larger than 2^53, so that
/// databases and other languages can hold them as integers or doubles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    pub(crate) const fn new(token: u64) -> Self {
        Self(token)
    }

    /// Returns the token as a number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// For columns of type `bigint`.
impl From<FencingToken> for i64 {
    fn from(token: FencingToken) -> Self {
        Self::try_from(token.0).unwrap_or(Self::MAX)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A view on a held lock: how long it can be trusted, and how it ended.
///
/// `lease = name` in the attribute binds one in the body. It can be cloned and handed to other
/// tasks; it keeps nothing alive.
#[derive(Clone)]
pub struct Lease {
    pub(crate) asked: Result<Asked, Box<Unasked>>,
}

/// A section that has no node set, or no usable key.
#[derive(Clone, Debug)]
pub(crate) struct Unasked {
    pub(crate) key: Arc<str>,
    pub(crate) error: LockError,
}

impl Lease {
    /// Returns the key of the lock, as it stands on the nodes: with the [key prefix](crate::Builder::key_prefix).
    #[must_use]
    pub fn key(&self) -> &str {
        match &self.asked {
            Ok(asked) => asked.own.key(),
            Err(unasked) => &unasked.key,
        }
    }

    pub(crate) fn asked(&self) -> Result<&Asked, LockError> {
        self.asked.as_ref().map_err(|unasked| unasked.error.clone())
    }

    /// Returns true while the lock is held: it was acquired, is not released, is not known to be lost, and its deadline
    /// has not passed. The answer can change at any time; see [`remaining`](Self::remaining).
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Returns how long the lease still lasts; zero if the lock is no longer held.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.asked.as_ref().map_or(Duration::ZERO, Asked::remaining)
    }

    /// Returns the number by which a store tells this holder from earlier ones. It is larger than the token of every
    /// holder of this key whose lock had ended when this acquisition began. It is unique, with the exceptions of
    /// [promise 8](crate::guarantees#promises).
    ///
    /// Send it with the *first read* and every write; the store refuses a token that is smaller than the largest it has
    /// seen: see [`fence`](crate::fence). With [permits](crate::Lock::permits), several holders have tokens at a time:
    /// they are unique, and rise from holder to holder of one permit only.
    ///
    /// # Errors
    /// [`LockError::Lost`], [`LockError::Expired`], [`LockError::Released`] or [`LockError::Stopped`] if the lock is no
    /// longer held. It also fails while the lock is not held yet.
    pub fn fencing_token(&self) -> Result<FencingToken, LockError> {
        let asked = self.asked()?;
        if !self.is_held() {
            return Err(asked.over_error());
        }
        Ok(FencingToken(asked.status().token().0))
    }

    /// Waits until the lock is no longer held, and returns the reason: [`Lost`](LockError::Lost),
    /// [`Expired`](LockError::Expired), [`Stopped`](LockError::Stopped), or [`Released`](LockError::Released) when its
    /// holder has released it. Use it to end a task that works under the lock:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use redlock_runtime::{LockError, Redlock};
    /// # let redlock = Redlock::builder().nodes(["memory://watched"]).build().await?;
    /// let guard = redlock.lock("ledger").acquire().await?;
    /// let lease = guard.lease();
    /// let watcher = tokio::spawn(async move {
    ///     match lease.lost().await {
    ///         LockError::Released(_) => {}
    ///         error => eprintln!("{error}"),
    ///     }
    /// });
    /// guard.release().await;
    /// watcher.await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancellation
    /// Cancel-safe. Several tasks can call it, and one task several times.
    pub async fn lost(&self) -> LockError {
        match &self.asked {
            Ok(asked) => {
                asked.status().over().await;
                asked.over_error()
            }
            Err(unasked) => unasked.error.clone(),
        }
    }

    /// Starts a new lease now and returns how long it lasts: the full length that the lock was acquired with, but not
    /// beyond `max_hold`. Calls at the same time share an extension, so what is left may be less by a round trip.
    ///
    /// # Errors
    /// [`LockError::NoQuorum`] if too few nodes confirmed in time: the old lease continues, and another try may
    /// succeed. Any other error means that the lock is no longer held.
    ///
    /// # Cancellation
    /// The extension continues when the future is dropped. It never revives a lock that has ended.
    pub async fn extend(&self) -> Result<Duration, LockError> {
        let section = self.asked()?.status().section;
        let lease = None;
        self.renew(section, Event::Extend { section, lease }).await
    }

    /// Starts a new lease of another length now, once, and returns how long the lease lasts. Use it before a step that
    /// takes longer than the others.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://extend-to"]).build().await?;
    /// let guard = redlock.lock("ledger").expire(Duration::from_secs(5)).acquire().await?;
    /// let lasts = guard.extend_to(Duration::from_secs(30)).await?;
    /// assert!(lasts > Duration::from_secs(29));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - It never shortens the lease: if more than `length` is left, that stays.
    /// - [Renewals](crate::Lock::renew) and [`extend`](Self::extend) go on with the length that the lock was acquired
    ///   with, and change nothing while more than that is left.
    /// - [`max_hold`](crate::Lock::max_hold) limits it.
    /// - If the process is killed, the nodes keep the lock for the new length.
    ///
    /// # Errors
    /// [`LockError::Config`] if `length` could not be an [`expire`](crate::Lock::expire), for example because it is
    /// longer than [`max_lease`](crate::Builder::max_lease). Otherwise as [`extend`](Self::extend).
    ///
    /// # Cancellation
    /// As [`extend`](Self::extend).
    pub async fn extend_to(&self, length: Duration) -> Result<Duration, LockError> {
        let asked = self.asked()?;
        let lease = Some(asked.shared.settings.lease(length)?);
        let section = asked.status().section;
        self.renew(section, Event::Extend { section, lease }).await
    }

    /// Shows another text beside the lock from now on; see [`Lock::value`](crate::Lock::value). Use it for what a
    /// [leader](crate::Redlock::leader) says of itself, such as a new address.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://set-value"]).build().await?;
    /// let leadership = redlock.leader("scheduler").value("starting").campaign().await?;
    /// leadership.set_value("10.0.0.7:8080")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It returns at once; the nodes show the text within a round trip. No lease depends on it.
    ///
    /// # Errors
    /// [`LockError::Config`] if the text has more than 256 bytes or the lock is shared. Otherwise as
    /// [`fencing_token`](Self::fencing_token).
    pub fn set_value(&self, value: impl AsRef<str>) -> Result<(), LockError> {
        let FencingToken(token) = self.fencing_token()?;
        let asked = self.asked()?;
        let options = Options {
            shared: asked.status().is_shared(),
            ..Options::default()
        };
        options.check_value(value.as_ref())?;
        let note = script::note(Token(token), value.as_ref()).into();
        asked.shared.engine.note(asked.status().section, note);
        Ok(())
    }

    /// Hands in what the section asks for, and returns how long the lease lasts then.
    pub(crate) async fn renew(
        &self,
        section: SectionId,
        event: Event,
    ) -> Result<Duration, LockError> {
        let asked = self.asked()?;
        if !self.is_held() {
            return Err(asked.over_error());
        }
        match asked.shared.engine.renew(section, event).await {
            Ok(Ok(())) => Ok(self.remaining()),
            Ok(Err(verdicts)) => {
                let report = asked.report().said(&asked.shared.addresses, verdicts);
                Err(LockError::NoQuorum(report))
            }
            Err(Stopped) => Err(asked.over_error()),
        }
    }

    /// Runs `body` under this lease, in any task. The body is not polled after the lease has ended, and sections in it
    /// that acquire the same lock [join](crate::Lock::reentrant) the lease, or fail with [`LockError::Nested`].
    ///
    /// Bodies of [`Lock::hold`](crate::Lock::hold) and of annotated functions run under their lease already. Use this
    /// for the tasks that they spawn, and for code that holds a [`Guard`](crate::Guard):
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://scope"]).build().await?;
    /// let guard = redlock.lock("ledger").acquire().await?;
    /// let nested = redlock.lock("ledger").reentrant();
    /// let task = tokio::spawn(guard.scope(nested.hold(async |_| "entry")));
    /// assert_eq!(task.await???, "entry");
    /// guard.release().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Await the body before the lock is released: the lease keeps nothing alive, and a task on another thread learns
    /// of the end at its next await only.
    ///
    /// # Errors
    /// [`LockError::Lost`], [`LockError::Expired`], [`LockError::Released`] or [`LockError::Stopped`] if the lease
    /// ended before the body.
    ///
    /// # Cancellation
    /// Dropping the future drops the body, and has no effect on the lease.
    pub fn scope<B: Future>(
        &self,
        body: B,
    ) -> impl Future<Output = Result<B::Output, LockError>> + use<B> {
        let mut lease = self.clone();
        if let Ok(asked) = &mut lease.asked {
            let status = Arc::clone(asked.status());
            asked.around = Some(status);
        }
        async move {
            let body = pin!(body);
            run(&lease, &Course::default(), body).await
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("key", &self.key())
            .field("remaining", &self.remaining())
            .finish()
    }
}

/// Polls `body` while the lease can be trusted, and not again once that has ended. The caller
/// destroys it.
pub(crate) async fn run<B: Future>(
    lease: &Lease,
    course: &Course,
    mut body: Pin<&mut B>,
) -> Result<B::Output, LockError> {
    let asked = lease.asked()?;
    let status = asked.status();
    let mut over = pin!(status.over());
    let mut enclosing = Some(asked.clone());
    let finished = poll_fn(|context| {
        // The clock and not the engine has the last word, so that a deadline holds also where the
        // news of it comes late.
        let is_over = over.as_mut().poll(context).is_ready();
        if is_over || !status.is_held(asked.shared.engine.now()) {
            return Poll::Ready(None);
        }
        let _span = course.enter();
        nesting::within(&mut enclosing, || body.as_mut().poll(context)).map(Some)
    })
    .await;
    asked.shared.check_clock()?;
    finished.ok_or_else(|| asked.over_error())
}
