//! Leader election: a fair lock that is renewed, and acquired again when it is lost.

use std::{ops::Deref, time::Duration};

use crate::{
    error::LockError,
    guard::Guard,
    leader::Observation,
    lease::{Lease, Release},
    lock::Lock,
    redlock::Redlock,
};

impl Redlock {
    /// Makes an election: at most one process of the fleet leads at a time, and when it resigns or dies, another one
    /// follows. It sends nothing: [`Election::campaign`] and [`Election::run`] do.
    ///
    /// The key follows the rules of [`lock`](Self::lock).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://leader"]).build().await?;
    /// let leadership = redlock.leader("scheduler").campaign().await?;
    /// println!("leads with token {}", leadership.fencing_token()?);
    /// leadership.resign().await;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "election")]
    pub fn leader(&self, key: impl AsRef<str>) -> Election {
        let lock = self.lock(key).fair().renew().wait(Duration::MAX).leads();
        Election { lock }
    }
}

/// A candidate for the leadership of a fleet, made by [`Redlock::leader`]. It can be cloned, and can campaign
/// any number of times.
///
/// The leader holds the [fair](Lock::fair) lock with the key of the election, and renews it every third of the lease.
/// A function with `#[redis_lock(key = "..", leader)]` campaigns and runs while it leads, as [`run`](Self::run) does.
///
/// - Candidates lead in the order in which they began to campaign, within the limits of [`Lock::fair`].
/// - If the leader [resigns](Leadership::resign), the nodes notify the next candidate.
/// - If the process of the leader dies, the next candidate leads when the keys of the leader have expired, one
///   [key TTL](crate#units) after the last renewal.
/// - [`Redlock::inspect`] with the key of the election reports which process leads, and which ones wait.
/// - A [`Lock`] with the key of the election excludes the leader. Use a key that nothing else locks.
///
/// A leader that is paused, or that cannot reach a majority of the nodes, loses its leadership when the lease ends. A
/// write that it sent before can arrive later. Send the [fencing token](Lease::fencing_token) with the first read and
/// every write, and let the store refuse writes of earlier leaders: see [`fence`](crate::fence).
#[derive(Clone, Debug)]
#[must_use = "nobody campaigns before `campaign` or `run` is awaited"]
pub struct Election {
    lock: Lock,
}

impl Election {
    /// Sets the lease: how long a leader leads without a renewal. After the leader's process has died, the fleet is
    /// without a leader until the keys of this lease have expired. At least 30 ms. Default: the lease of the [node
    /// set](crate::Builder::expire).
    pub fn expire(self, lease: Duration) -> Self {
        let lock = self.lock.expire(lease);
        Self { lock }
    }

    /// Sets how long a campaign waits for the leadership. Default: `Duration::MAX`, without limit. Zero is one attempt,
    /// which fails while another process leads or waits.
    pub fn wait(self, time: Duration) -> Self {
        let lock = self.lock.wait(time);
        Self { lock }
    }

    /// Names the election in metrics, events and errors; see [`Lock::name`].
    pub fn name(self, name: &'static str) -> Self {
        let lock = self.lock.name(name);
        Self { lock }
    }

    /// Sets a text of up to 256 bytes about this process, such as its address or version. While it leads,
    /// [`observe`](Self::observe) and [`Redlock::inspect`] show the text; see [`Lock::value`]. Default: empty.
    pub fn value(self, value: impl AsRef<str>) -> Self {
        let lock = self.lock.value(value);
        Self { lock }
    }

    /// Follows who leads, without a campaign:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://observe"]).build().await?;
    /// # let leadership = redlock.leader("scheduler").value("10.0.0.7:8080").campaign().await?;
    /// let mut leaders = redlock.leader("scheduler").observe();
    /// while let Some(leader) = leaders.next().await {
    ///     println!("requests go to {}, token {}", leader.value, leader.token);
    /// #   assert_eq!(leader.value, "10.0.0.7:8080");
    /// #   assert_eq!(leader.token, leadership.fencing_token()?);
    /// #   break;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The leader is a hint for routing: [`Observation`] describes the reads.
    #[doc(alias = "follow")]
    pub fn observe(&self) -> Observation {
        self.lock.observe()
    }

    /// Waits until this process leads.
    ///
    /// Without [`wait`](Self::wait) the call waits without limit, also through outages of the nodes. If the process is
    /// paused, and its lease ends before this future is polled again, another attempt begins with the whole `wait`.
    ///
    /// # Errors
    /// [`LockError::Contended`], [`NoQuorum`](LockError::NoQuorum) or [`Quarantined`](LockError::Quarantined) if the
    /// process does not lead within `wait`; [`Nested`](LockError::Nested) within a body of this task that leads;
    /// [`Config`](LockError::Config) for a lease that cannot work, or a key that is reserved;
    /// [`EmptyKey`](LockError::EmptyKey) for an empty key; [`Stopped`](LockError::Stopped) after a shutdown.
    ///
    /// # Cancellation
    /// Cancel-safe. Dropping the future withdraws the candidate.
    #[doc(alias = "elect")]
    pub fn campaign(&self) -> impl Future<Output = Result<Leadership, LockError>> + use<> {
        let lock = self.lock.clone();
        async move {
            loop {
                match lock.acquire().await {
                    Err(error) if is_over(&error) => {}
                    answer => return answer.map(|guard| Leadership { guard }),
                }
            }
        }
    }

    /// Campaigns, runs `body` while this process leads, resigns, and returns what the body returned.
    ///
    /// When the leadership is lost, the body is dropped at its current `.await`. Then the process campaigns again, and
    /// calls `body` for the next leadership:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = redlock_runtime::Redlock::builder().nodes(["memory://run"]).build().await?;
    /// let election = redlock.leader("scheduler");
    /// let jobs = election
    ///     .run(|lease| async move {
    ///         // The loop of a scheduler: each job goes to the store with the token.
    ///         let token = lease.fencing_token()?;
    ///         println!("leads with token {token}");
    ///         Ok::<_, redlock_runtime::LockError>(1)
    ///     })
    ///     .await??;
    /// assert_eq!(jobs, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`campaign`](Self::campaign), also for a later campaign. [`Stopped`](LockError::Stopped) if the node set is
    /// shut down while the body runs. An error that the body returns ends the call, too.
    ///
    /// # Cancellation
    /// Cancel-safe: the body is dropped first, then the process resigns.
    ///
    /// # Panics
    /// Only if the body does; the process resigns while the panic passes.
    pub async fn run<B: Future>(
        &self,
        mut body: impl FnMut(Lease) -> B,
    ) -> Result<B::Output, LockError> {
        loop {
            match self.lock.clone().hold(&mut body).await {
                Err(error) if is_over(&error) => {}
                answer => return answer,
            }
        }
    }
}

/// True if a leadership was granted and has ended, so that a new campaign can succeed.
pub(crate) const fn is_over(error: &LockError) -> bool {
    matches!(error, LockError::Lost(_) | LockError::Expired(_))
}

/// The leadership of this process, which [`Election::campaign`] returns. It renews itself. Dropping it resigns, as
/// dropping a [`Guard`] releases a lock, without waiting for the nodes.
///
/// It dereferences to its [`Lease`]: [`fencing_token`](Lease::fencing_token) returns the token of this leader,
/// which is larger than the tokens of all leaders before it, [`is_held`](Lease::is_held) whether this process still
/// leads, and [`lost`](Lease::lost) waits for the end of the leadership and returns its cause.
/// [`scope`](Lease::scope) runs a future only while this process leads.
///
/// Like a guard, it stops no code. Race the work against `lost`, run it in `scope`, or use [`Election::run`].
#[derive(Debug)]
#[must_use = "dropping it resigns"]
pub struct Leadership {
    guard: Guard,
}

impl Leadership {
    /// Returns a view on the leadership for other tasks. It does not keep the leadership.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.guard.lease()
    }

    /// Resigns, and waits for the nodes' replies. The next candidate leads without waiting for the end of the lease.
    ///
    /// # Cancellation
    /// The release is sent when this method is called, also if the future is dropped before its first poll.
    pub fn resign(self) -> impl Future<Output = Release> + Send {
        self.guard.release()
    }
}

impl Deref for Leadership {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.guard
    }
}
