//! What the user of a server must be allowed to do, found out by doing it on keys that only the doctor has.

use std::{process, time::SystemTime};

use redlock_runtime::__tool::{Names, ServerError, Value};

use crate::reply::{error, is_about_rights};

/// A right of the documented rule.
#[derive(Debug)]
pub(crate) struct Right {
    pub(super) rule: &'static str,
    /// A command that needs it. `KEY`, `HASH` and `DATABASE` stand for those of the doctor.
    probe: &'static str,
    /// What does not work without it; none if nothing works.
    pub(super) loss: Option<&'static str>,
}

const fn needed(rule: &'static str, probe: &'static str) -> Right {
    let loss = None;
    Right { rule, probe, loss }
}

const fn useful(rule: &'static str, probe: &'static str, loss: &'static str) -> Right {
    let loss = Some(loss);
    Right { rule, probe, loss }
}

const SCRIPTS: &str = "scripts are sent again and again";
const RESTARTS: &str = "restarts with old data, replicas and eviction are not detected";
const DURABLE: &str = "a durable server is quarantined after a restart like any other";
const TRACKING: &str = "a lost lock is noticed at its next renewal only";
const HOLDER: &str = "the holder of a lock cannot be named";
const RENEWALS: &str = "renewals of several locks take a command for each";

/// What the probes write is deleted by the last ones, and expires after a second if the user may not delete it.
const RIGHTS: &[Right] = &[
    needed("+eval", "EVAL return(1) 0"),
    // An unknown script, which is found out after the rights.
    needed(
        "+evalsha",
        "EVALSHA 0000000000000000000000000000000000000000 0",
    ),
    useful("+script|load", "SCRIPT LOAD return(1)", SCRIPTS),
    useful("+info", "INFO server", RESTARTS),
    useful("+config|get", "CONFIG GET appendonly", DURABLE),
    useful("+client|tracking", "CLIENT TRACKING OFF", TRACKING),
    useful("+client|caching", "CLIENT CACHING YES", TRACKING),
    useful("+client|setname", "CLIENT SETNAME redlock-doctor", HOLDER),
    useful("+client|list", "CLIENT LIST", HOLDER),
    needed("+select", "SELECT DATABASE"),
    needed("+set", "SET KEY x NX PX 1000"),
    needed("+get", "GET KEY"),
    useful("+mget", "MGET KEY", RENEWALS),
    needed("+pttl", "PTTL KEY"),
    needed("+pexpire", "PEXPIRE KEY 1000"),
    needed("+del", "DEL KEY"),
    needed("+hset", "HSET HASH x x"),
    needed("+hget", "HGET HASH x"),
    needed("+hmget", "HMGET HASH x"),
    needed("+hgetall", "HGETALL HASH"),
    needed("+hdel", "HDEL HASH x"),
    needed("+time", "TIME"),
];

/// For one run, so that two doctors do not meet.
pub(super) fn name_of_probe() -> String {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    format!("doctor:{}:{}", process::id(), now.as_nanos())
}

/// One command for each right, in order.
pub(super) fn probes(names: &Names, name: &str) -> Vec<Vec<String>> {
    let word = |word: &str| match word {
        "KEY" => format!("{}__{name}", names.prefix),
        "HASH" => format!("{}__redlock:{name}", names.tag),
        "DATABASE" => names.database.to_string(),
        word => word.to_owned(),
    };
    let probe = |right: &Right| right.probe.split(' ').map(word).collect();
    RIGHTS.iter().map(probe).collect()
}

/// The rights that the replies deny.
pub(super) fn lacking(replies: &[Value]) -> Vec<(&'static Right, ServerError)> {
    let denied = |(right, reply)| {
        let error = error(reply).filter(|it| is_about_rights(it))?;
        Some((right, error.clone()))
    };
    RIGHTS.iter().zip(replies).filter_map(denied).collect()
}

/// The commands that the server refuses although the user has the right to them.
pub(super) fn refused(replies: &[Value]) -> impl Iterator<Item = (String, ServerError)> {
    let refused = |(right, reply): (&Right, &Value)| {
        // A script that nobody has, and keys of which the server sends no notices.
        let is_expected = |error: &ServerError| match right.rule {
            "+evalsha" => error.code() == "NOSCRIPT",
            rule => rule == "+client|caching" && error.code() == "ERR",
        };
        let error = error(reply).filter(|it| !is_about_rights(it) && !is_expected(it))?;
        let command = right.rule[1..].replace('|', " ").to_uppercase();
        Some((command, error.clone()))
    };
    RIGHTS.iter().zip(replies).filter_map(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_documented_right_has_a_probe() {
        let page = include_str!("../../../redlock-runtime/src/guide/servers.md");
        let mut blocks = page
            .split("```")
            .filter(|block| block.starts_with("text\n~"));
        let rules = blocks
            .next()
            .expect("the page lists them")
            .split_whitespace();
        let documented: Vec<&str> = rules.filter(|rule| rule.starts_with('+')).collect();
        let probed: Vec<&str> = RIGHTS.iter().map(|right| right.rule).collect();
        for rule in &documented {
            assert!(probed.contains(rule), "{rule}");
        }
        assert_eq!(probed.len(), documented.len());
    }

    #[test]
    fn a_probe_asks_for_its_right() {
        for right in RIGHTS {
            let words = right.rule[1..].split('|').map(str::to_uppercase);
            let mut asked = words.zip(right.probe.split(' '));
            assert!(asked.all(|(word, said)| word == said), "{right:?}");
        }
    }
}
