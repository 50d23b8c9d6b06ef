//! What can go wrong with a lock, told apart by what the caller should do about it. The only
//! place that turns the protocol's refusals and losses into errors.

use std::{error, fmt, sync::Arc, time::Duration};

use redlock_protocol::{Cause, Loss};
pub use redlock_protocol::{QuarantineReason, Verdict};

use crate::{
    config::ConfigError,
    health::{listed, quarantined},
    key::shown,
};

/// Why a lock was not acquired, or no longer protects.
///
/// | variant | what happened | what to do |
/// |---|---|---|
/// | [`Contended`](Self::Contended) | another client or task holds the lock | try later, or answer HTTP 409 |
/// | [`NoQuorum`](Self::NoQuorum) | too few nodes replied in time for a majority, or too many with an error | an outage: answer HTTP 503, alert |
/// | [`Quarantined`](Self::Quarantined) | too few nodes vote, because some restarted and may have lost locks | an outage that ends by itself: answer HTTP 503 with `Retry-After` |
/// | [`Lost`](Self::Lost), [`Expired`](Self::Expired) | the lease ended before the body | the body was cut off; its effects may be partial |
/// | [`Released`](Self::Released) | the section that owned the lease has ended | end the users of a lease before its section |
/// | [`Nested`](Self::Nested) | this task already holds the lock | fix the code: lock once, or make the inner lock `reentrant` |
/// | [`Upgrade`](Self::Upgrade) | this task shares the lock, and an exclusive `reentrant` lock wants to join | fix the code: make the outer lock exclusive |
/// | [`Stopped`](Self::Stopped) | the node set was shut down | nothing: the process is ending |
/// | [`NotInstalled`](Self::NotInstalled) | `install()` was not called | fix the set-up |
/// | [`EmptyKey`](Self::EmptyKey) | the key or one of its placeholders is empty | bad input: answer HTTP 400 |
/// | [`Config`](Self::Config) | invalid lock options | fix the code |
///
/// All variants except the last two carry a [`Report`]: the key, the time spent, and the reply of each node. `Debug`
/// writes the same text as `Display`, because a `main` that returns the error prints it by `Debug`. No text contains a
/// password. Texts change between releases: match the variant, and read the report.
#[non_exhaustive]
#[derive(Clone)]
pub enum LockError {
    /// Another client holds the lock, or another task of this process holds it or is already asking for it.
    /// [`LockError::retry_after`] is the time until the lock expires, if that is known.
    Contended(Report),
    /// Too few nodes replied in time for a majority: the others are down, out of reach or slow, or reject the request.
    /// A reply counts within the node timeout, while at least a tenth of the lease is left. In that time, a majority
    /// must also agree on a fencing token.
    NoQuorum(Report),
    /// Enough nodes for a majority are connected, but some have lost their memory, by a restart or a flush. They do not
    /// vote until all locks that they may have forgotten have expired. [`LockError::retry_after`] is the time until
    /// then. [`Lock::wait`](crate::Lock::wait) also waits for this.
    Quarantined(Report),
    /// So many nodes lost the key of the held lock that no majority is known to have it.
    Lost(Report),
    /// The lease ended while the lock was held: it was not renewed, no majority extended it in time, or `max_hold` was
    /// reached.
    Expired(Report),
    /// The section that held the lock has ended and released it, and its [`Lease`](crate::Lease) is still in use.
    Released(Report),
    /// A section of this task holds the lock and asked for it again: it would wait for itself. [`Report::outer_name`]
    /// names the outer section. A [re-entrant](crate::Lock::reentrant) inner lock joins the outer one.
    Nested(Report),
    /// A section of this task [shares](crate::Lock::shared) the lock and asked for it exclusively, with a
    /// [re-entrant](crate::Lock::reentrant) lock. Two sections that do this would wait for each other.
    /// [`Report::outer_name`] names the outer section.
    Upgrade(Report),
    /// The node set was shut down.
    Stopped(Report),
    /// No node set was installed when the lock was acquired: [`Builder::install`](crate::Builder::install) makes one.
    NotInstalled(Report),
    /// The key, or a placeholder in it, is empty. All calls with an empty value would share one lock.
    EmptyKey {
        /// The placeholder as the attribute names it, `user.name()`; `None` if the whole key is
        /// empty.
        placeholder: Option<&'static str>,
    },
    /// The options of the lock are invalid: durations that do not fit together, or a key that contains `__redlock:`,
    /// which is reserved for the library.
    Config(ConfigError),
}

/// The circumstances of a [`LockError`]: section, key, times, and the reply of each node.
#[derive(Clone, Debug)]
pub struct Report(Box<Circumstances>);

#[derive(Clone, Debug, Default)]
struct Circumstances {
    name: Option<&'static str>,
    outer_name: Option<&'static str>,
    key: Arc<str>,
    elapsed: Duration,
    retry_after: Option<Duration>,
    verdicts: Vec<NodeVerdict>,
    /// The call was not to wait for the lock.
    asked_once: bool,
    value: Option<String>,
}

/// The reply of one node in the deciding round. `Display` writes a sentence that begins with the node's address.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeVerdict {
    /// The node's address, without user and password.
    pub node: Arc<str>,
    /// The reply.
    pub verdict: Verdict,
}

impl LockError {
    /// Returns the key of the lock, with the [key prefix](crate::Builder::key_prefix); `None` for
    /// [`LockError::EmptyKey`] and [`LockError::Config`].
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.report().map(Report::key)
    }

    /// Returns the time since the acquisition began: the wait before a failure, or the age of a lost lock. Zero if no
    /// acquisition began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.report().map_or(Duration::ZERO, Report::elapsed)
    }

    /// Returns when a retry makes sense. For [`LockError::Contended`]: when the holder's lock expires, if that is
    /// known. For [`LockError::Quarantined`] a majority votes again by then. `None` for all other errors.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.report().and_then(Report::retry_after)
    }

    /// Returns the reply of each node, in the order of the node set. Empty if no node was asked, for example if
    /// another task of this process holds the lock or is already asking for it.
    #[must_use]
    pub fn verdicts(&self) -> &[NodeVerdict] {
        self.report().map_or(&[], Report::verdicts)
    }

    /// Returns the circumstances; `None` for [`LockError::EmptyKey`] and [`LockError::Config`].
    #[must_use]
    pub const fn report(&self) -> Option<&Report> {
        match self {
            Self::Contended(report)
            | Self::NoQuorum(report)
            | Self::Quarantined(report)
            | Self::Lost(report)
            | Self::Expired(report)
            | Self::Released(report)
            | Self::Nested(report)
            | Self::Upgrade(report)
            | Self::Stopped(report)
            | Self::NotInstalled(report) => Some(report),
            Self::EmptyKey { .. } | Self::Config(_) => None,
        }
    }

    pub(crate) fn refused(cause: Cause, report: Report) -> Self {
        match cause {
            Cause::Contended { retry_after } => Self::Contended(report.retry(retry_after)),
            Cause::NoQuorum => Self::NoQuorum(report),
            Cause::Quarantined { ready_in } => Self::Quarantined(report.retry(Some(ready_in))),
            Cause::Stopped => Self::Stopped(report),
        }
    }

    /// `loss`: what has ended the lease, if that was not its time.
    pub(crate) fn over(loss: Option<&Loss>, report: Report, nodes: &[Arc<str>]) -> Self {
        match loss {
            Some(Loss::Lost { verdicts }) => Self::Lost(report.said(nodes, verdicts.clone())),
            Some(Loss::Expired { verdicts }) => Self::Expired(report.said(nodes, verdicts.clone())),
            Some(Loss::Stopped) => Self::Stopped(report),
            None => Self::Expired(report),
        }
    }

    pub(crate) fn not_installed(key: Arc<str>, name: Option<&'static str>) -> Self {
        Self::NotInstalled(Report::new(name, key, Duration::ZERO))
    }
}

impl Report {
    pub(crate) fn new(name: Option<&'static str>, key: Arc<str>, elapsed: Duration) -> Self {
        Self(Box::new(Circumstances {
            name,
            key,
            elapsed,
            ..Circumstances::default()
        }))
    }

    pub(crate) fn asked_once(mut self, asked_once: bool) -> Self {
        self.0.asked_once = asked_once;
        self
    }

    /// `nodes`: their addresses, in the order of the verdicts.
    pub(crate) fn said(mut self, nodes: &[Arc<str>], verdicts: Vec<Verdict>) -> Self {
        let nodes = nodes.iter().map(Arc::clone).zip(verdicts);
        let verdicts = nodes.map(|(node, verdict)| NodeVerdict { node, verdict });
        self.0.verdicts = verdicts.collect();
        self
    }

    /// `value`: what the holder says.
    pub(crate) fn with_value(mut self, value: Option<String>) -> Self {
        self.0.value = value;
        self
    }

    /// `outer`: the section that holds the lock.
    pub(crate) fn within(mut self, outer: Option<&'static str>) -> Self {
        self.0.outer_name = outer;
        self
    }

    fn retry(mut self, after: Option<Duration>) -> Self {
        self.0.retry_after = after;
        self
    }

    /// Returns the name of the section: the `name` of the attribute or of the lock, by default the path of the
    /// annotated function. `None` if the lock has neither.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.name
    }

    /// Returns the name of the section that already holds the lock, for [`LockError::Nested`] and
    /// [`LockError::Upgrade`].
    #[must_use]
    pub fn outer_name(&self) -> Option<&str> {
        self.0.outer_name
    }

    /// Returns the [value](crate::Lock::value) of the lock's holder, for [`LockError::Contended`]. `None` unless the lock
    /// that was asked for has a value, too, and a process with a value holds it.
    #[must_use]
    pub fn value(&self) -> Option<&str> {
        self.0.value.as_deref()
    }

    /// Returns the key of the lock, with the [key prefix](crate::Builder::key_prefix).
    #[must_use]
    pub fn key(&self) -> &str {
        &self.0.key
    }

    /// Returns the time since the acquisition began: see [`LockError::elapsed`].
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed
    }

    /// Returns when a retry makes sense: see [`LockError::retry_after`].
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Returns the reply of each node: see [`LockError::verdicts`].
    #[must_use]
    pub fn verdicts(&self) -> &[NodeVerdict] {
        &self.0.verdicts
    }

    /// A majority would have answered in time if none had answered with an error.
    fn is_rejected(&self) -> bool {
        let verdicts = self.0.verdicts.iter().map(|it| &it.verdict);
        let is_error = |verdict: &&Verdict| {
            matches!(verdict, Verdict::Refused { .. } | Verdict::Garbled { .. })
        };
        2 * verdicts.filter(is_error).count() >= self.0.verdicts.len()
            && !self.0.verdicts.is_empty()
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fact())?;
        f.write_str(match self {
            Self::Quarantined(_) => {
                "; to wait for it, use `wait`; in development, skip it by `assume_fresh(true)`"
            }
            _ if self.is_short_of_time() => {
                "; to hold it for longer, use `renew`, or a longer `expire` or `max_hold`"
            }
            _ => "",
        })
    }
}

/// For the program `redlock`, whose remedies are other ones.
#[doc(hidden)]
impl LockError {
    /// Returns the text without what the caller can do.
    #[must_use]
    pub fn fact(&self) -> String {
        let lock = self.report().map_or_else(String::new, |report| {
            let name = report.name().map(|name| format!(" of `{name}`"));
            format!("lock `{}`{}", shown(report.key()), name.unwrap_or_default())
        });
        let verdicts = self.verdicts().iter();
        let verdicts = listed(verdicts.map(|it| (&*it.node, it)));
        format!("{lock}{}{verdicts}", self.happened())
    }

    /// Returns true if no node is to blame: the body took longer than its lease.
    #[must_use]
    pub fn is_short_of_time(&self) -> bool {
        matches!(self, Self::Expired(report) if report.verdicts().is_empty())
    }

    fn happened(&self) -> String {
        let elapsed = self.elapsed();
        match self {
            Self::Contended(report) => contended(report),
            Self::NoQuorum(report) => {
                let why = match report.is_rejected() {
                    true => "too many nodes rejected the request",
                    false => "too few nodes answered in time for a majority",
                };
                format!(": {why} (after {elapsed:.1?})")
            }
            Self::Quarantined(report) => quarantine(report),
            Self::Lost(_) => format!(
                " was lost while it was held: no majority of nodes is known to have its key any more \
                 (acquisition began {elapsed:.1?} ago)"
            ),
            Self::Expired(_) => {
                format!(" expired while it was held (acquisition began {elapsed:.1?} ago)")
            }
            Self::Released(_) => " is not held any more, because its section has ended".to_owned(),
            Self::Nested(report) => format!(
                ": this task already holds it{}, and would wait for itself; `reentrant` makes a section join one \
                 around it that has all its keys, with `permits` if it has them",
                within(report)
            ),
            Self::Upgrade(report) => format!(
                ": this task shares it{}, and cannot have it alone before that ends; leave out `shared` there",
                within(report)
            ),
            Self::Stopped(_) => ": the node set was shut down".to_owned(),
            Self::NotInstalled(_) => NOT_INSTALLED.to_owned(),
            Self::EmptyKey { placeholder: None } => "the key of the lock is empty".to_owned(),
            Self::EmptyKey {
                placeholder: Some(placeholder),
            } => format!(
                "lock key placeholder `{{{placeholder}}}` is empty; all calls with an empty value would share one lock"
            ),
            Self::Config(error) => format!("invalid lock options: {error}"),
        }
    }
}

const NOT_INSTALLED: &str = if cfg!(feature = "test-util") {
    ": no node set is installed; call `Redlock::builder().nodes([...]).install().await` first; in a \
     test, call `Redlock::test()` and its `enter`, for one thread, or `scope`, for one future"
} else {
    ": no node set is installed; call `Redlock::builder().nodes([...]).install().await` first"
};

fn contended(report: &Report) -> String {
    let (waited, after) = (report.elapsed(), report.retry_after());
    // Nothing but a holder of this process answers without nodes and knows its rest.
    let holder = match report.verdicts().is_empty() && after.is_some() {
        true => " is held in this process",
        false => " is held by another owner",
    };
    let value = report
        .value()
        .map(|value| format!(" with the value `{}`", shown(value)));
    let rest = after.map(|after| format!(", for at most {after:.1?} more"));
    let (value, rest) = (value.unwrap_or_default(), rest.unwrap_or_default());
    match report.0.asked_once {
        true => format!("{holder}{value}{rest} (asked once; with `wait` the call waits for it)"),
        false => format!("{holder}{value}{rest} (waited {waited:.1?})"),
    }
}

fn quarantine(report: &Report) -> String {
    let rest = report.retry_after().filter(|rest| !rest.is_zero());
    let rest = rest.map_or_else(|| "yet".to_owned(), |rest| format!("for up to {rest:.1?}"));
    format!(
        ": no majority is available {rest}, because some servers may have lost locks and do not vote until those \
         have expired (after {:.1?})",
        report.elapsed()
    )
}

/// Where the outer section is.
fn within(report: &Report) -> String {
    let outer = report.outer_name().map(|outer| format!(" in `{outer}`"));
    outer.unwrap_or_default()
}

impl fmt::Debug for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A sentence that begins with the node's address.
impl fmt::Display for NodeVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.node)?;
        match &self.verdict {
            Verdict::Ours => f.write_str("has this lock's key"),
            Verdict::HeldByAnother {
                remaining: Some(remaining),
            } => write!(f, "has another owner's key for {remaining:.1?}"),
            Verdict::HeldByAnother { remaining: None } => {
                f.write_str("has another owner's key, which never expires")
            }
            Verdict::NoLongerOurs => f.write_str("is not known to have this lock's key"),
            Verdict::NoAnswerYet => f.write_str("had not answered yet"),
            Verdict::NotAsked => f.write_str("was not asked"),
            Verdict::TimedOut => f.write_str("timed out"),
            Verdict::Quarantined { reason, remaining } => {
                f.write_str(&quarantined(*reason, *remaining))
            }
            Verdict::ClockAhead { by } => {
                write!(f, "does not vote, because its clock has run {by:.1?} ahead")
            }
            Verdict::Unreachable { reason } => write!(f, "is unreachable ({reason})"),
            Verdict::Disconnected { reason } => write!(f, "disconnected ({reason})"),
            Verdict::Refused { message } => write!(f, "refused ({message})"),
            Verdict::Garbled { answer } => write!(f, "gave an unexpected answer ({answer})"),
            other => write!(f, "{other:?}"),
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

/// Converts a lock error into the return value of an annotated function.
///
/// Every `Result<T, E>` with `E: From<LockError>` implements it. For any other return type, write `on_error = |error|
/// ...` in the attribute, or implement this trait:
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
    message = "`#[redis_lock]` cannot return a lock error as `{Self}`",
    label = "a lock error does not convert to this",
    note = "return `Result<T, E>` with `E: From<LockError>`, or say `on_error = |error| ...` in the attribute"
)]
pub trait FromLockError {
    /// Returns the value that stands for the failed lock.
    fn from_lock_error(error: LockError) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T, E: From<LockError>> FromLockError for Result<T, E> {
    fn from_lock_error(error: LockError) -> Self {
        Err(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report::new(None, "stock".into(), Duration::from_millis(3))
    }

    /// It may have stood on a bare majority.
    #[test]
    fn a_lost_lock_does_not_say_of_any_node_that_it_had_the_key() {
        let nodes = ["a:1".into(), "b:2".into()];
        let verdicts = vec![Verdict::Ours, Verdict::NoLongerOurs];
        let loss = Loss::Lost { verdicts };
        let text = LockError::over(Some(&loss), report(), &nodes).to_string();
        assert!(
            text.ends_with("a:1 has this lock's key, b:2 is not known to have this lock's key"),
            "{text}"
        );
    }

    #[test]
    fn a_quarantine_that_is_over_names_no_time() {
        for (millis, expected) in [
            (0, "no majority is available yet,"),
            (9, "for up to 9.0ms,"),
        ] {
            let ready_in = Duration::from_millis(millis);
            let cause = Cause::Quarantined { ready_in };
            let text = LockError::refused(cause, report()).to_string();
            assert!(text.contains(expected), "{text}");
        }
    }
}
