//! What happens in a history, as lines: to be read, or to be compared with the lines of its
//! repetition.

use std::fmt::Arguments;

/// What becomes of the lines.
#[derive(Debug)]
pub(crate) enum Log {
    Off,
    /// Only their hash is kept.
    Hashed(Fnv),
    Printed,
}

/// FNV-1a.
#[derive(Debug)]
pub(crate) struct Fnv(u64);

impl Log {
    pub(crate) const fn hashed() -> Self {
        Self::Hashed(Fnv(0xcbf2_9ce4_8422_2325))
    }

    pub(crate) const fn is_on(&self) -> bool {
        !matches!(self, Self::Off)
    }

    pub(crate) fn line(&mut self, now: u64, line: Arguments<'_>) {
        match self {
            Self::Off => {}
            Self::Hashed(hash) => {
                hash.add(&now.to_le_bytes());
                hash.add(line.to_string().as_bytes());
            }
            Self::Printed => println!("{:>12.6} ms  {line}", now as f64 / 1e6),
        }
    }

    pub(crate) const fn digest(&self) -> u64 {
        match self {
            Self::Hashed(Fnv(hash)) => *hash,
            Self::Off | Self::Printed => 0,
        }
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
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
