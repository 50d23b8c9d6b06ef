//! What the options of one lock must be: for the compiler, for the builder and for the program.

use std::{fmt, time::Duration};

use super::{
    lock_options::{LONGEST_MAX_LEASE, LONGEST_VALUE, Options, PERMITS, Renew, SHORTEST_RENEWAL},
    problem::{ConfigError, ConfigProblem, ProblemKind},
};

/// A rule that the options of a lock break.
#[derive(Clone, Copy, Debug)]
pub struct OptionProblem {
    kind: ProblemKind,
    option: &'static str,
    fact: &'static str,
    /// What the option is, and what the one that it does not fit is.
    values: [Option<(&'static str, Duration)>; 2],
}

impl OptionProblem {
    /// Without the values.
    pub const fn fact(&self) -> &'static str {
        self.fact
    }

    const fn new(option: &'static str, fact: &'static str) -> Self {
        Self {
            kind: ProblemKind::BadOption,
            option,
            fact,
            values: [None; 2],
        }
    }

    const fn of(mut self, value: Duration) -> Self {
        self.values[0] = Some((self.option, value));
        self
    }

    const fn and(mut self, other: &'static str, value: Duration) -> Self {
        self.values[1] = Some((other, value));
        self
    }
}

/// `renew` must be shorter than `expire`; the lock would expire first (`renew` is 6s, `expire` is 5s)
impl fmt::Display for OptionProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.fact)?;
        let values = self.values.iter().flatten();
        let values: Vec<_> = values
            .map(|(name, value)| format!("`{name}` is {value:?}"))
            .collect();
        match &values[..] {
            [] => Ok(()),
            values => write!(f, " ({})", values.join(", ")),
        }
    }
}

impl From<OptionProblem> for ConfigProblem {
    fn from(problem: OptionProblem) -> Self {
        Self::new(problem.kind, problem.option, problem.to_string(), "")
    }
}

/// Returns the first of these rules that is broken: its option, and after a `=` what that is; if it does not fit another
/// option, that one with its value.
macro_rules! refuse {
    ($($option:literal $(= $value:expr $(, $other:literal = $of_other:expr)?)?, if $is_broken:expr => $fact:literal;)+) => {
        $(if $is_broken {
            let problem = OptionProblem::new($option, $fact);
            return Some(problem$(.of($value)$(.and($other, $of_other))?)?);
        })+
    };
}

/// What is wrong with a number of permits.
pub(crate) const fn permits_problem((permits, weight): (u32, u32)) -> Option<OptionProblem> {
    let is_fit = *PERMITS.start() <= permits && permits <= *PERMITS.end();
    refuse! {
        "permits", if !is_fit => "a lock has 1 to 1024 permits";
        "weight", if weight < 1 || weight > permits => "`weight` must be at least 1, and at most `permits`";
    }
    None
}

/// Durations cannot be compared while compiling.
const fn is_less(one: Duration, other: Duration) -> bool {
    one.as_nanos() < other.as_nanos()
}

impl Options {
    /// The first rule that is broken, for the compiler, which knows no settings, and for the builder.
    #[doc(hidden)]
    pub const fn first_problem(&self) -> Option<OptionProblem> {
        self.first_problem_with(false, None, LONGEST_MAX_LEASE)
    }

    /// `default`: the lease of the node set.
    pub(crate) const fn first_problem_with(
        &self,
        has_several_keys: bool,
        default: Option<Duration>,
        max_lease: Duration,
    ) -> Option<OptionProblem> {
        if let Some(problem) = self.conflict(has_several_keys) {
            return Some(problem);
        }
        let expire = match (self.expire, default) {
            (Some(expire), _) | (None, Some(expire)) => expire,
            // Nothing is known of it: it is no shorter than anything.
            (None, None) => Duration::MAX,
        };
        if let Some(problem) = lease_problem(expire, max_lease)
            && (self.expire.is_some() || default.is_some())
        {
            return Some(problem);
        }
        if let Some(problem) = self.renewal_problem(expire) {
            return Some(problem);
        }
        if let Some(at_least) = self.at_least {
            refuse! {
                "at_least", if at_least.is_zero() => "`at_least` must be longer than zero";
                "at_least" = at_least, "expire" = expire, if is_less(expire, at_least) =>
                    "`at_least` is longer than `expire`; the nodes keep the lock of a process that crashes no longer than that";
            }
        }
        let weight = match self.weight {
            Some(weight) => weight,
            None => 1,
        };
        if let Some(permits) = self.permits {
            return permits_problem((permits, weight));
        }
        refuse! {
            "weight", if self.weight.is_some() => "`weight` says how many of the `permits` a call takes; add `permits`";
        }
        None
    }

    /// What is wrong with a value for those who look at the lock.
    pub(crate) fn check_value(&self, value: &str) -> Result<(), ConfigError> {
        let (kind, fact) = if self.shared {
            let fact = "`value` cannot be combined with `shared`; a lock with several holders has no value";
            (ProblemKind::NotTogether, fact)
        } else if value.len() > LONGEST_VALUE {
            let fact = "`value` is longer than 256 bytes; put an address or an id there, and the data into a store";
            (ProblemKind::BadOption, fact)
        } else {
            return Ok(());
        };
        Err(ConfigError::of(ConfigProblem::new(kind, "value", fact, "")))
    }

    /// How often a lease of this length is renewed.
    pub(super) const fn renewal(&self, lease: Duration) -> Option<Duration> {
        match self.renew {
            Renew::Never => None,
            Renew::Default => Some(redlock_protocol::default_renewal(lease)),
            Renew::Every(interval) => Some(interval),
        }
    }

    const fn renewal_problem(&self, expire: Duration) -> Option<OptionProblem> {
        let Some(renew) = self.renewal(expire) else {
            refuse! {
                "max_hold", if self.max_hold.is_some() =>
                    "`max_hold` has no effect without `renew`; the lease already ends after `expire`";
            }
            return None;
        };
        refuse! {
            "renew", if renew.is_zero() => "`renew` must be longer than zero";
            "renew" = renew, "expire" = expire, if !is_less(renew, expire) =>
                "`renew` must be shorter than `expire`; the lock would expire first";
            "renew" = renew, if is_less(renew, SHORTEST_RENEWAL) =>
                "`renew` must be at least 10ms, because each renewal asks all nodes; without an interval it is a third of `expire`";
        }
        // A lease of which nothing is known is no longer than anything.
        if let Some(hold) = self.max_hold
            && is_less(expire, Duration::MAX)
        {
            refuse! {
                "max_hold" = hold, "expire" = expire, if is_less(hold, expire) =>
                    "`max_hold` is shorter than `expire`; make the lease shorter instead";
            }
        }
        None
    }

    /// What does not go together.
    const fn conflict(&self, has_several_keys: bool) -> Option<OptionProblem> {
        /// Its parts have the words of both, so that a constant can be the text.
        macro_rules! exclude {
            ($remedy:literal: $($one:literal $is_one:expr, $other:literal $is_other:expr;)+) => {
                $(if $is_one && $is_other {
                    let fact = concat!("`", $one, "` cannot be combined with ", $other, "; ", $remedy);
                    let mut problem = OptionProblem::new($one, fact);
                    problem.kind = ProblemKind::NotTogether;
                    return Some(problem);
                })+
            };
        }
        let (at_least, permits) = (self.at_least.is_some(), self.permits.is_some());
        exclude! {
            "leave out one of the two":
            "at_least" at_least, "several keys" has_several_keys;
            "at_least" at_least, "`shared`" self.shared;
            "at_least" at_least, "`weight`" self.weight.is_some();
            // The section around it decides when the lock is released.
            "at_least" at_least, "`reentrant`" self.reentrant;
            "fair" self.fair, "several keys" has_several_keys;
            "fair" self.fair, "`shared`" self.shared;
            "fair" self.fair, "`permits`" permits;
            "permits" permits, "`shared`" self.shared;
        }
        exclude! {
            "set it for the keys that are to have it":
            "permits" permits, "several keys" has_several_keys;
            "weight" self.weight.is_some(), "several keys" has_several_keys;
            "shared" self.shared, "several keys" has_several_keys;
        }
        None
    }
}

/// What is wrong with a lease.
pub(super) const fn lease_problem(expire: Duration, max_lease: Duration) -> Option<OptionProblem> {
    refuse! {
        "expire", if expire.is_zero() => "`expire` must be longer than zero";
        "expire" = expire, "max_lease" = max_lease, if is_less(max_lease, expire) =>
            "`expire` is longer than `max_lease`; for long work take a short lease and `renew`, or give all processes a longer `max_lease`, up to a day";
        "expire" = expire, if !redlock_protocol::outlasts_drift(expire) =>
            "`expire` is shorter than the clock drift that Redlock allows for; the lock could never be held";
    }
    None
}
