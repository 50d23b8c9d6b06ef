//! What happens in a history, as lines: to be read, or to be compared with the lines of its
//! repetition.

use std::{
    fmt::Arguments,
    hash::{DefaultHasher, Hash, Hasher},
};

/// What becomes of the lines.
#[derive(Debug, Default)]
pub(crate) enum Log {
    #[default]
    Off,
    /// Only their hash is kept.
    Hashed(DefaultHasher),
    Printed,
}

impl Log {
    pub(crate) fn hashed() -> Self {
        Self::Hashed(DefaultHasher::new())
    }

    pub(crate) const fn is_on(&self) -> bool {
        !matches!(self, Self::Off)
    }

    pub(crate) fn line(&mut self, now: u64, line: Arguments<'_>) {
        match self {
            Self::Off => {}
            Self::Hashed(hasher) => (now, line.to_string()).hash(hasher),
            Self::Printed => println!("{:>12.6} ms  {line}", now as f64 / 1e6),
        }
    }

    pub(crate) fn digest(&self) -> u64 {
        match self {
            Self::Hashed(hasher) => hasher.finish(),
            Self::Off | Self::Printed => 0,
        }
    }
}

/// Adds a line to the log of a world; nothing is formatted where nobody reads it.
#[macro_export]
macro_rules! trace {
    ($world:expr, $($line:tt)+) => {
        if $world.log.is_on() {
            let now = $world.now;
            let line = format!($($line)+);
            $world.log.line(now, format_args!("{line}"));
        }
    };
}
