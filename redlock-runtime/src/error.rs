//! What can go wrong with a lock, told apart by what the caller should do about it. The only
//! place that turns the protocol's refusals and losses into errors.

use std::{error, fmt, sync::Arc, time::Duration};

use crate::{
    config::ConfigError,
    protocol::{Cause, Fault, Loss, Refusal, Vote},
};

/// Why a lock was not acquired, or no longer protects.
///
/// | variant | what happened | what to do |
/// |---|---|---|
/// | [`Contended`](Self::Contended) | somebody else holds the lock | try later, or tell the client: HTTP 409 |
/// | [`NoQuorum`](Self::NoQuorum) | too few nodes answer | an outage: HTTP 503, alert |
/// | [`Quarantined`](Self::Quarantined) | too few nodes are sure to remember all locks | an outage that ends by itself: HTTP 503 with `Retry-After` |
/// | [`TooSlow`](Self::TooSlow) | nodes granted, but too late to be useful | the same |
/// | [`Lost`](Self::Lost), [`Expired`](Self::Expired) | the lease ended under the body | the body was cut off; its effects may be partial |
/// | [`Stopped`](Self::Stopped) | the node set was shut down | the process is ending |
/// | [`NotInstalled`](Self::NotInstalled) | nobody called `install()` | a bug in the set-up |
/// | [`EmptyKey`](Self::EmptyKey) | a placeholder of the key came out empty | bad input: HTTP 400 |
/// | [`Config`](Self::Config) | the options of this lock cannot work | a bug in the code |
///
/// Every variant but the last two carries a [`Report`]: key, time spent, and what each node said.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub enum LockError {
    /// Somebody else holds the lock, on a majority of nodes or on so many that none was left to
    /// win. [`LockError::retry_after`] tells when a retry makes sense, where that is known.
    Contended(Report),
    /// Too few nodes answered for a majority: they are down, out of reach, silent, or refuse.
    NoQuorum(Report),
    /// Enough nodes are connected, but so many of them may have lost their memory, in a restart or
    /// a flush, that they must not vote before all that they may have forgotten has run out.
    /// [`LockError::retry_after`] tells when that is. With [`Lock::wait`](crate::Lock::wait) it is
    /// waited for.
    Quarantined(Report),
    /// A majority granted the lock so late that less than a tenth of the lease was left.
    TooSlow(Report),
    /// The key was gone, or somebody else's, on a majority of nodes while the lock was held.
    Lost(Report),
    /// The lease ran out while the lock was held: it was not renewed, renewals found no quorum
    /// in time, or `max_hold` was reached.
    Expired(Report),
    /// The node set was shut down.
    Stopped(Report),
    /// No node set was installed when the lock was wanted.
    NotInstalled(Report),
    /// The key, or a placeholder in it, came out empty: the lock would exclude everybody else
    /// with an empty value instead of those with the same one.
    EmptyKey {
        /// The placeholder as the attribute names it, `user.name()`; `None` if the whole key is
        /// empty.
        placeholder: Option<&'static str>,
    },
    /// The lock asks for something that cannot work: for durations that do not fit together, or for
    /// a key that begins with `__redlock:`, under which the library keeps its own data.
    Config(ConfigError),
}

/// The circumstances of a [`LockError`].
#[derive(Clone, Debug)]
pub struct Report(Box<Circumstances>);

#[derive(Clone, Debug)]
struct Circumstances {
    name: Option<&'static str>,
    key: Arc<str>,
    elapsed: Duration,
    retry_after: Option<Duration>,
    verdicts: Vec<NodeVerdict>,
}

/// What one node said in the round that decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeVerdict {
    node: Arc<str>,
    verdict: Verdict,
}

/// A node's word on a key.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The key was ours.
    Ours,
    /// The key was somebody else's.
    HeldByAnother {
        /// How long that key still lives; `None` if it never expires.
        remaining: Option<Duration>,
    },
    /// The key was no longer ours: gone, or somebody else's.
    NoLongerOurs,
    /// The node had not answered when the others decided.
    NoAnswerYet,
    /// The node was not asked: the others decided first, or took too long.
    NotAsked,
    /// The node did not answer within the node timeout.
    TimedOut,
    /// The node may have lost its memory, and does not vote until what it may have forgotten has
    /// run out.
    Quarantined {
        /// How long that takes.
        remaining: Duration,
    },
    /// The node's clock has run ahead of ours by so much that it may drop locks early. Its vote is
    /// set aside.
    ClockAhead {
        /// By how much, since the lock was acquired or last renewed.
        by: Duration,
    },
    /// There is no connection to the node.
    Unreachable {
        /// Why the last attempt to make one failed.
        reason: Arc<str>,
    },
    /// The connection broke before the answer came.
    Disconnected {
        /// How it broke.
        reason: Arc<str>,
    },
    /// The server answered with an error.
    Refused {
        /// Its words.
        message: Arc<str>,
    },
    /// The server answered with something that is no answer.
    Garbled {
        /// What it said, shortened.
        answer: Arc<str>,
    },
}

impl LockError {
    /// The key of the lock; `None` where there was none to speak of.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.report().map(Report::key)
    }

    /// How long the lock was waited for, or how long ago it was asked for when it was lost. Zero
    /// where it was not asked for.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.report().map_or(Duration::ZERO, Report::elapsed)
    }

    /// When a retry makes sense: for [`LockError::Contended`] after the time that the present
    /// holder's key has left, where that is known, and for [`LockError::Quarantined`] after the
    /// quarantine. `None` for everything else.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.report().and_then(Report::retry_after)
    }

    /// What each node said, in the order of the node set; empty where no node was asked, as
    /// when another task of this process holds the lock.
    #[must_use]
    pub fn verdicts(&self) -> &[NodeVerdict] {
        self.report().map_or(&[], Report::verdicts)
    }

    /// The circumstances; `None` for [`LockError::EmptyKey`] and [`LockError::Config`].
    #[must_use]
    pub const fn report(&self) -> Option<&Report> {
        match self {
            Self::Contended(report)
            | Self::NoQuorum(report)
            | Self::Quarantined(report)
            | Self::TooSlow(report)
            | Self::Lost(report)
            | Self::Expired(report)
            | Self::Stopped(report)
            | Self::NotInstalled(report) => Some(report),
            Self::EmptyKey { .. } | Self::Config(_) => None,
        }
    }

    pub(crate) fn refused(refusal: Refusal, context: &Context<'_>) -> Self {
        let report = context.report(refusal.votes);
        match refusal.cause {
            Cause::Contended { retry_after } => Self::Contended(report.retry(retry_after)),
            Cause::NoQuorum => Self::NoQuorum(report),
            Cause::Quarantined { ready_in } => Self::Quarantined(report.retry(Some(ready_in))),
            Cause::TooSlow => Self::TooSlow(report),
            Cause::Stopped => Self::Stopped(report),
        }
    }

    pub(crate) fn over(loss: &Loss, context: &Context<'_>) -> Self {
        match loss {
            Loss::Lost { votes } => Self::Lost(context.report(votes.clone())),
            Loss::Expired { votes } => Self::Expired(context.report(votes.clone())),
            Loss::Stopped => Self::Stopped(context.report(Vec::new())),
        }
    }

    pub(crate) fn not_extended(votes: Vec<Vote>, context: &Context<'_>) -> Self {
        Self::NoQuorum(context.report(votes))
    }

    pub(crate) fn stopped(context: &Context<'_>) -> Self {
        Self::Stopped(context.report(Vec::new()))
    }

    pub(crate) const fn empty_key() -> Self {
        Self::EmptyKey { placeholder: None }
    }

    pub(crate) const fn empty_placeholder(placeholder: &'static str) -> Self {
        Self::EmptyKey {
            placeholder: Some(placeholder),
        }
    }

    pub(crate) fn not_installed(key: &Arc<str>, name: &'static str) -> Self {
        let context = Context {
            name: Some(name),
            key,
            elapsed: Duration::ZERO,
            nodes: &[],
        };
        Self::NotInstalled(context.report(Vec::new()))
    }
}

/// What an error needs to know beside the protocol's words.
pub(crate) struct Context<'a> {
    pub(crate) name: Option<&'static str>,
    pub(crate) key: &'a Arc<str>,
    pub(crate) elapsed: Duration,
    /// The nodes' addresses, in order.
    pub(crate) nodes: &'a [Arc<str>],
}

impl Context<'_> {
    fn report(&self, votes: Vec<Vote>) -> Report {
        let verdicts = self.nodes.iter().zip(votes);
        Report(Box::new(Circumstances {
            name: self.name,
            key: Arc::clone(self.key),
            elapsed: self.elapsed,
            retry_after: None,
            verdicts: verdicts
                .map(|(node, vote)| NodeVerdict {
                    node: Arc::clone(node),
                    verdict: vote.into(),
                })
                .collect(),
        }))
    }
}

impl Report {
    /// What the section is called: the `name` of the attribute, by default the path of the
    /// function. `None` without an attribute.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.name
    }

    /// The key of the lock.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.0.key
    }

    /// See [`LockError::elapsed`].
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed
    }

    /// See [`LockError::retry_after`].
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// See [`LockError::verdicts`].
    #[must_use]
    pub fn verdicts(&self) -> &[NodeVerdict] {
        &self.0.verdicts
    }

    fn retry(mut self, after: Option<Duration>) -> Self {
        self.0.retry_after = after;
        self
    }
}

impl NodeVerdict {
    /// The node's address, without user and password.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// What it said.
    #[must_use]
    pub const fn verdict(&self) -> &Verdict {
        &self.verdict
    }
}

impl From<Vote> for Verdict {
    fn from(vote: Vote) -> Self {
        match vote {
            Vote::Pending => Self::NoAnswerYet,
            Vote::NotAsked => Self::NotAsked,
            Vote::Ours => Self::Ours,
            Vote::Held { remaining } => Self::HeldByAnother { remaining },
            Vote::NotOwner => Self::NoLongerOurs,
            Vote::Failed(Fault::TimedOut) => Self::TimedOut,
            Vote::Failed(Fault::Quarantined(remaining)) => Self::Quarantined { remaining },
            Vote::Failed(Fault::ClockAhead(by)) => Self::ClockAhead { by },
            Vote::Failed(Fault::Unreachable(reason)) => Self::Unreachable { reason },
            Vote::Failed(Fault::Disconnected(reason)) => Self::Disconnected { reason },
            Vote::Failed(Fault::Refused(message)) => Self::Refused { message },
            Vote::Failed(Fault::Garbled(answer)) => Self::Garbled { answer },
        }
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(report) = self.report() {
            write!(f, "lock `{}`", report.key())?;
            if let Some(name) = report.name() {
                write!(f, " of `{name}`")?;
            }
        }
        let elapsed = self.elapsed();
        match self {
            Self::Contended(report) => {
                f.write_str(" is held by another owner")?;
                if let Some(after) = report.retry_after() {
                    write!(f, ", for at most {after:.1?} more")?;
                }
                write!(f, " (waited {elapsed:.1?})")?;
            }
            Self::NoQuorum(_) => write!(
                f,
                ": too few nodes answered for a majority (after {elapsed:.1?})"
            )?,
            Self::Quarantined(report) => write!(
                f,
                ": too many nodes may have lost their memory; ready in {:.1?} (after {elapsed:.1?})",
                report.retry_after().unwrap_or_default()
            )?,
            Self::TooSlow(_) => {
                write!(f, " was granted too late to be useful (after {elapsed:.1?})")?;
            }
            Self::Lost(_) => write!(
                f,
                " was lost while it was held: a majority of nodes no longer has its key (asked for {elapsed:.1?} ago)"
            )?,
            Self::Expired(_) => write!(f, " expired while it was held (asked for {elapsed:.1?} ago)")?,
            Self::Stopped(_) => f.write_str(": the node set was shut down")?,
            Self::NotInstalled(_) => f.write_str(
                ": no node set is installed; call `Redlock::builder().nodes([...]).install().await` first",
            )?,
            Self::EmptyKey { placeholder: None } => f.write_str("the key of the lock is empty")?,
            Self::EmptyKey {
                placeholder: Some(placeholder),
            } => write!(
                f,
                "the key of the lock has nothing in it for `{{{placeholder}}}`; it would lock everything that has nothing there"
            )?,
            Self::Config(error) => write!(f, "this lock cannot work: {error}")?,
        }
        for (index, verdict) in self.verdicts().iter().enumerate() {
            f.write_str(if index == 0 { ": " } else { ", " })?;
            verdict.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for NodeVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.node, self.verdict)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours => f.write_str("ours"),
            Self::HeldByAnother {
                remaining: Some(remaining),
            } => write!(f, "held by another for {remaining:.1?}"),
            Self::HeldByAnother { remaining: None } => {
                f.write_str("held by another without expiry")
            }
            Self::NoLongerOurs => f.write_str("no longer ours"),
            Self::NoAnswerYet => f.write_str("had not answered yet"),
            Self::NotAsked => f.write_str("was not asked"),
            Self::TimedOut => f.write_str("timed out"),
            Self::Quarantined { remaining } => {
                write!(f, "quarantined, ready in {remaining:.1?}")
            }
            Self::ClockAhead { by } => {
                write!(f, "has a clock that ran {by:.1?} ahead")
            }
            Self::Unreachable { reason } => write!(f, "unreachable ({reason})"),
            Self::Disconnected { reason } => write!(f, "disconnected ({reason})"),
            Self::Refused { message } => write!(f, "refused ({message})"),
            Self::Garbled { answer } => write!(f, "gave no sensible answer ({answer})"),
        }
    }
}

impl error::Error for LockError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            _ => None,
        }
    }
}

impl From<ConfigError> for LockError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

/// What an annotated function returns when its lock fails.
///
/// Every `Result<T, E>` whose `E` is `From<LockError>` has it already, and so has
/// `Result<T, LockError>`. For any other return type write `on_error = |error| ...` in the
/// attribute, or implement this trait for a type of your own.
///
/// ```
/// use redlock_runtime::{FromLockError, LockError};
///
/// enum Answer {
///     Done,
///     Busy,
/// }
///
/// impl FromLockError for Answer {
///     fn from_lock_error(_: LockError) -> Self {
///         Self::Busy
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`#[redis_lock]` does not know how `{Self}` tells that the lock failed",
    label = "a lock error does not convert to this",
    note = "return `Result<T, E>` with `E: From<LockError>`, or say `on_error = |error| ...` in the attribute"
)]
pub trait FromLockError {
    /// The value that stands for the failed lock.
    fn from_lock_error(error: LockError) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T, E: From<LockError>> FromLockError for Result<T, E> {
    fn from_lock_error(error: LockError) -> Self {
        Err(error.into())
    }
}
