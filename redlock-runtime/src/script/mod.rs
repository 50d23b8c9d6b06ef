//! The scripts that nodes run, and the order of their keys and arguments.
//!
//! On the wire a lock is what every Redlock client writes: `SET key owner NX PX ttl`, and a
//! compare-and-delete. Clients of other libraries on the same key exclude us and are excluded.

use std::{sync::LazyLock, time::Duration};

use redis::{Cmd, Script};
use uuid::Uuid;

use crate::protocol::{Owner, Request, stripe};

static ADMIT: LazyLock<Source> = LazyLock::new(|| Source::new(include_str!("admit.lua")));
static TOP: LazyLock<Source> = LazyLock::new(|| Source::new(include_str!("top.lua")));
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

/// What makes a server know all scripts.
pub(crate) fn load_all() -> Vec<Cmd> {
    let scripts = [&ADMIT, &TOP, &ACQUIRE, &CONFIRM, &EXTEND, &RELEASE];
    let load = |script: &LazyLock<Source>| {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(script.text);
        command
    };
    scripts.map(load).into()
}

/// The hash of what a node knows beside the locks: which process was admitted, and by stripe the
/// counters behind the fencing tokens and who waits. It never expires. It is one, so that whoever
/// deletes the counters deletes the admission too.
const NODE: &str = "redlock:node";

/// Lives as long as the node is quarantined.
const QUARANTINE: &str = "redlock:quarantine";

/// The name of a process that does not tell its own: then a restart shows by its lost data, but
/// not if it has brought old data back.
const UNKNOWN: &str = "unknown";

/// The command that carries out a request on the process `server`: by the script's digest, or with
/// its text for a server that has lost it.
pub(crate) fn command(request: &Request, server: Option<&str>, with_source: bool) -> Cmd {
    let server = server.unwrap_or(UNKNOWN);
    let run = |script, keys: &[&str]| run(script, with_source, keys);
    match request {
        Request::Identify => redis::cmd("INFO").arg("server").to_owned(),
        Request::Admit {
            quarantine,
            unless_flushed,
            is_durable,
            floor,
        } => {
            let mut command = run(&ADMIT, &[NODE, QUARANTINE]);
            let floor = floor.map_or_else(String::new, |floor| floor.0.to_string());
            command.arg(server).arg(millis(*quarantine));
            command.arg(u8::from(*is_durable)).arg(floor);
            command.arg(u8::from(*unless_flushed));
            command
        }
        Request::Top => run(&TOP, &[NODE]),
        Request::Acquire {
            key,
            owner,
            ttl,
            proposal,
            handed_over,
            waits,
        } => {
            let mut command = run(&ACQUIRE, &[key, NODE]);
            command.arg(&owner_value(*owner)[..]).arg(millis(*ttl));
            command.arg(stripe(key)).arg(proposal.0).arg(server);
            match handed_over {
                Some(spare) => command.arg(millis(*spare)),
                None => command.arg(""),
            };
            command.arg(u8::from(*waits));
            command
        }
        Request::Confirm { key, owner, token } => {
            let mut command = run(&CONFIRM, &[key, NODE]);
            command.arg(&owner_value(*owner)[..]);
            command.arg(stripe(key)).arg(token.0);
            command
        }
        Request::Extend { key, owner, ttl } => {
            let mut command = run(&EXTEND, &[key, NODE]);
            command.arg(&owner_value(*owner)[..]);
            command.arg(millis(*ttl)).arg(server);
            command
        }
        Request::Watch { key, .. } => redis::cmd("GET").arg(&**key).to_owned(),
        Request::Release {
            key,
            owner,
            catch_up,
        } => {
            let mut command = run(&RELEASE, &[key, NODE]);
            command.arg(&owner_value(*owner)[..]);
            command.arg(stripe(key)).arg(catch_up.0);
            command
        }
    }
}

fn run(script: &Source, with_source: bool, keys: &[&str]) -> Cmd {
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
    command.arg(keys.len()).arg(keys);
    command
}

/// What must go before a request, in the same pipeline; its answers are of no interest.
pub(crate) fn preface(request: &Request) -> Vec<Cmd> {
    match request {
        // The next command, and no other, reads keys whose changes are told.
        Request::Watch { .. } => vec![redis::cmd("CLIENT").arg("CACHING").arg("YES").to_owned()],
        // Asked of a server that has lost a script. What was to be run may not be wanted any more
        // by the time that it votes again, and whoever asks next should not meet the same.
        Request::Identify => load_all(),
        _ => Vec::new(),
    }
}

/// What stands under the lock key: the owner's random id, as text that people can compare.
pub(crate) fn owner_value(owner: Owner) -> [u8; 36] {
    let mut text = [0; 36];
    Uuid::from_u128(owner.0)
        .hyphenated()
        .encode_lower(&mut text);
    text
}

/// The owner whose value this is.
pub(crate) fn owner(value: &[u8]) -> Option<Owner> {
    let owner = Owner(Uuid::try_parse_ascii(value).ok()?.as_u128());
    // Other spellings of it are somebody else's.
    (owner_value(owner) == *value).then_some(owner)
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
        let id = Some(Owner(0x67e5_5044_10b1_426f_9247_bb68_0e5f_e0c8));
        assert_eq!(owner(&text), id);
        assert_eq!(owner(b"67E55044-10B1-426F-9247-BB680E5FE0C8"), None);
        assert_eq!(owner(b"somebody"), None);
    }
}
