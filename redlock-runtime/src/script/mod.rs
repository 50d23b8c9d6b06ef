//! The scripts that nodes run, and the order of their keys and arguments.
//!
//! On the wire a lock is what every Redlock client writes: `SET key owner NX PX ttl`, and a
//! compare-and-delete. Clients of other libraries on the same key exclude us and are excluded.

use std::{sync::LazyLock, time::Duration};

use redis::{Cmd, Pipeline, Script};
use uuid::Uuid;

use crate::protocol::{Owner, Request, stripe};

static ACQUIRE: LazyLock<Source> = LazyLock::new(|| Source::new(include_str!("acquire.lua")));
static CONFIRM: LazyLock<Source> = LazyLock::new(|| Source::new(include_str!("confirm.lua")));
static EXTEND: LazyLock<Source> = LazyLock::new(|| Source::new(include_str!("extend.lua")));
static RELEASE: LazyLock<Source> = LazyLock::new(|| Source::new(include_str!("release.lua")));

/// A script's text, and the digest by which a server that has it knows it.
struct Source {
    text: &'static str,
    sha: String,
}

impl Source {
    fn new(text: &'static str) -> Self {
        Self {
            text,
            sha: Script::new(text).get_hash().to_owned(),
        }
    }
}

/// Adds to a pipeline what makes a server know all scripts.
pub(crate) fn load_all(pipeline: &mut Pipeline) {
    for script in [&ACQUIRE, &CONFIRM, &EXTEND, &RELEASE] {
        pipeline.add_command(redis::cmd("SCRIPT").arg("LOAD").arg(script.text).to_owned());
    }
}

/// The hash of counters behind the fencing tokens, one field a stripe, beside the locks on every
/// node. It never expires.
const FENCE: &str = "redlock:fence";

/// The command that carries out a request: by the script's digest, or with its text for a server
/// that has lost it.
pub(crate) fn command(request: &Request, with_source: bool) -> Cmd {
    match request {
        Request::Acquire {
            key,
            owner,
            ttl,
            proposal,
        } => {
            let mut command = run(&ACQUIRE, with_source, &[key, FENCE], *owner);
            command.arg(millis(*ttl)).arg(stripe(key)).arg(proposal.0);
            command
        }
        Request::Confirm { key, owner, token } => {
            let mut command = run(&CONFIRM, with_source, &[key, FENCE], *owner);
            command.arg(stripe(key)).arg(token.0);
            command
        }
        Request::Extend { key, owner, ttl } => {
            let mut command = run(&EXTEND, with_source, &[key], *owner);
            command.arg(millis(*ttl));
            command
        }
        Request::Release { key, owner, seen } => {
            let mut command = run(&RELEASE, with_source, &[key, FENCE], *owner);
            command.arg(stripe(key)).arg(seen.0);
            command
        }
    }
}

/// Every script takes the owner as its first argument.
fn run(script: &Source, with_source: bool, keys: &[&str], owner: Owner) -> Cmd {
    let mut command = if with_source {
        redis::cmd("EVAL")
    } else {
        redis::cmd("EVALSHA")
    };
    command.arg(if with_source {
        script.text
    } else {
        &script.sha
    });
    command
        .arg(keys.len())
        .arg(keys)
        .arg(&owner_value(owner)[..]);
    command
}

/// What stands under the lock key: the owner's random id, as text that people can compare.
fn owner_value(owner: Owner) -> [u8; 36] {
    let mut text = [0; 36];
    Uuid::from_u128(owner.0)
        .hyphenated()
        .encode_lower(&mut text);
    text
}

/// Rounded up: a key must not be dropped before its time.
fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_ttl_is_rounded_up() {
        assert_eq!(millis(Duration::from_nanos(5_000_001)), 6);
        assert_eq!(millis(Duration::from_millis(5)), 5);
    }

    #[test]
    fn the_value_of_a_lock_is_a_uuid() {
        let text = owner_value(Owner(0x67e5_5044_10b1_426f_9247_bb68_0e5f_e0c8));
        assert_eq!(&text[..], b"67e55044-10b1-426f-9247-bb680e5fe0c8");
    }
}
