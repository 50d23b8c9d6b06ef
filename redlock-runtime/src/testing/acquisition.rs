//! One call that asked for a lock.

use std::{fmt, time::Duration};

use crate::observe::journal::Outcome;

/// One call that asked for a lock, and what has become of it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquisition {
    /// The key of the lock, without the key prefix of the node set.
    pub key: String,
    /// The name of the section: the `name` of the attribute, by default the path of the function. `None` without an
    /// attribute.
    pub name: Option<&'static str>,
    /// When the call asked for the lock, counted from when the node set was made.
    pub asked: Duration,
    /// When the call got the lock, counted like [`asked`](Self::asked).
    pub granted: Option<Duration>,
    /// When the call released the lock, failed or gave up, counted like [`asked`](Self::asked).
    pub ended: Option<Duration>,
    /// The outcome of the call so far.
    pub outcome: Outcome,
}

pub(super) fn without(prefix: &str, key: &str) -> String {
    key.strip_prefix(prefix).unwrap_or(key).to_owned()
}

impl fmt::Display for Acquisition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.key)?;
        if let Some(name) = self.name {
            write!(f, " of `{name}`")?;
        }
        write!(f, " asked at {}", at(self.asked))?;
        if let Some(granted) = self.granted {
            write!(f, ", locked at {}", at(granted))?;
        }
        match self.outcome {
            Outcome::Waiting => return f.write_str(", waits"),
            Outcome::Held => return f.write_str(", is held"),
            _ => write!(f, ", {}", self.outcome)?,
        }
        if let Some(ended) = self.ended {
            write!(f, " at {}", at(ended))?;
        }
        match &self.outcome {
            Outcome::Failed { error } => write!(f, ": {error}"),
            _ => Ok(()),
        }
    }
}

/// A time since the node set was made.
fn at(time: Duration) -> String {
    match time.is_zero() {
        true => "0s".to_owned(),
        false => format!("{time:.1?}"),
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waiting => "waiting",
            Self::Held => "held",
            Self::Released => "released",
            Self::Lost => "lost",
            Self::Expired => "expired",
            Self::Stopped => "stopped",
            Self::Cancelled => "cancelled",
            Self::Failed { .. } => "failed",
        })
    }
}
