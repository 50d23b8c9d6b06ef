//! What the user of a server must be allowed to do, found out by doing it on keys that only the doctor has.

use std::{process, time::SystemTime};

use redlock_runtime::__tool::{Names, ServerError, Value};

use crate::reply::{is_about_rights, refused};

/// A right of the documented rule; a command that needs it, in which `KEY`, `HASH` and `DATABASE` stand for those of
/// the doctor; and what does not work without it, none if nothing works.
#[derive(Debug)]
pub(crate) struct Right(
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) Loss,
);

type Loss = Option<&'static str>;

const SCRIPTS: Loss = Some("scripts are sent again and again");
const RESTARTS: Loss = Some("restarts with old data, replicas and eviction are not detected");
const DURABLE: Loss = Some("a durable server is quarantined after a restart like any other");
const TRACKING: Loss = Some("a lost lock is noticed at its next renewal only");
const HOLDER: Loss = Some("the holder of a lock cannot be named");
const RENEWALS: Loss = Some("renewals of several locks take a command for each");

/// What the probes write is deleted by the last ones, and expires after a second if the user may not delete it.
const RIGHTS: &[Right] = &[
    Right("+eval", "EVAL return(1) 0", None),
    // An unknown script, which is found out after the rights.
    Right(
        "+evalsha",
        "EVALSHA 0000000000000000000000000000000000000000 0",
        None,
    ),
    Right("+script|load", "SCRIPT LOAD return(1)", SCRIPTS),
    Right("+info", "INFO server", RESTARTS),
    Right("+config|get", "CONFIG GET appendonly", DURABLE),
    Right("+client|tracking", "CLIENT TRACKING OFF", TRACKING),
    Right("+client|caching", "CLIENT CACHING YES", TRACKING),
    Right("+client|setname", "CLIENT SETNAME redlock-doctor", HOLDER),
    Right("+client|list", "CLIENT LIST", HOLDER),
    Right("+select", "SELECT DATABASE", None),
    Right("+set", "SET KEY x NX PX 1000", None),
    Right("+get", "GET KEY", None),
    Right("+mget", "MGET KEY", RENEWALS),
    Right("+pttl", "PTTL KEY", None),
    Right("+pexpire", "PEXPIRE KEY 1000", None),
    Right("+del", "DEL KEY", None),
    Right("+hset", "HSET HASH x x", None),
    Right("+hget", "HGET HASH x", None),
    Right("+hmget", "HMGET HASH x", None),
    Right("+hgetall", "HGETALL HASH", None),
    Right("+hdel", "HDEL HASH x", None),
    Right("+time", "TIME", None),
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
    let probe = |Right(_, probe, _): &Right| probe.split(' ').map(word).collect();
    RIGHTS.iter().map(probe).collect()
}

/// What the replies say of the user who lacks a right.
type Lacks = Vec<(&'static Right, ServerError)>;

/// The rights that the replies deny, and the commands that the server refuses although the user has the right to them.
pub(super) fn lacking_and_refused(replies: &[Value]) -> (Lacks, Vec<(String, ServerError)>) {
    let (lacks, others): (Lacks, Lacks) =
        refused(RIGHTS, replies).partition(|(_, error)| is_about_rights(error));
    // A script that nobody has, and keys of which the server sends no notices.
    let is_expected = |(Right(rule, ..), error): &(&Right, ServerError)| {
        [("+evalsha", "NOSCRIPT"), ("+client|caching", "ERR")].contains(&(rule, error.code()))
    };
    let others = others.into_iter().filter(|other| !is_expected(other));
    let command = |rule: &str| rule[1..].replace('|', " ").to_uppercase();
    let refused = others.map(|(Right(rule, ..), error)| (command(rule), error));
    (lacks, refused.collect())
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
        let probed: Vec<&str> = RIGHTS.iter().map(|Right(rule, ..)| *rule).collect();
        for rule in &documented {
            assert!(probed.contains(rule), "{rule}");
        }
        assert_eq!(probed.len(), documented.len());
    }

    #[test]
    fn a_probe_asks_for_its_right() {
        for Right(rule, probe, _) in RIGHTS {
            let words = rule[1..].split('|').map(str::to_uppercase);
            let mut asked = words.zip(probe.split(' '));
            assert!(asked.all(|(word, said)| word == said), "{rule}: {probe}");
        }
    }
}
