//! What the user of a server must be allowed to do, found out by doing it on keys that only the doctor has.

use std::time::SystemTime;

use redlock_runtime::__tool::{ServerError, Value};

use crate::reply::{error, is_about_rights, words};

/// A right of the documented rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Right {
    pub(crate) rule: &'static str,
    /// What does not work without it; none if nothing works.
    pub(crate) loss: Option<&'static str>,
}

const fn needed(rule: &'static str) -> Right {
    Right { rule, loss: None }
}

const fn useful(rule: &'static str, loss: &'static str) -> Right {
    Right {
        rule,
        loss: Some(loss),
    }
}

const TRACKING: &str = "a lost lock is noticed at its next renewal only";

/// In the order of [`probes`].
const RIGHTS: &[Right] = &[
    needed("+eval"),
    needed("+evalsha"),
    useful("+script|load", "scripts are sent again and again"),
    useful(
        "+info",
        "restarts with old data, replicas and eviction are not detected",
    ),
    useful(
        "+config|get",
        "a durable server is quarantined after a restart like any other",
    ),
    useful("+client|tracking", TRACKING),
    useful("+client|caching", TRACKING),
    useful("+client|setname", "the holder of a lock cannot be named"),
    useful("+client|list", "the holder of a lock cannot be named"),
    needed("+select"),
    needed("+set"),
    needed("+get"),
    useful("+mget", "renewals of several locks take a command for each"),
    needed("+pttl"),
    needed("+pexpire"),
    needed("+del"),
    needed("+hset"),
    needed("+hget"),
    needed("+hmget"),
    needed("+hgetall"),
    needed("+hdel"),
    needed("+time"),
];

/// For one run, so that two doctors do not meet.
pub(crate) fn name_of_probe() -> String {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    format!("doctor:{}:{}", std::process::id(), now.as_nanos())
}

/// One command for each right. What they write is deleted by the last ones, and expires after a second if
/// the user may not delete it.
pub(crate) fn probes(tag: &str, key_prefix: &str, name: &str, database: &str) -> Vec<Vec<String>> {
    let key = &format!("{tag}{key_prefix}__{name}")[..];
    let hash = &format!("{tag}__redlock:{name}")[..];
    // An unknown script, which is found out after the rights.
    let digest = "0".repeat(40);
    vec![
        words(&["EVAL", "return 1", "0"]),
        words(&["EVALSHA", &digest, "0"]),
        words(&["SCRIPT", "LOAD", "return 1"]),
        words(&["INFO", "server"]),
        words(&["CONFIG", "GET", "appendonly"]),
        words(&["CLIENT", "TRACKING", "OFF"]),
        words(&["CLIENT", "CACHING", "YES"]),
        words(&["CLIENT", "SETNAME", "redlock-doctor"]),
        words(&["CLIENT", "LIST"]),
        words(&["SELECT", database]),
        words(&["SET", key, "x", "NX", "PX", "1000"]),
        words(&["GET", key]),
        words(&["MGET", key]),
        words(&["PTTL", key]),
        words(&["PEXPIRE", key, "1000"]),
        words(&["DEL", key]),
        words(&["HSET", hash, "x", "x"]),
        words(&["HGET", hash, "x"]),
        words(&["HMGET", hash, "x"]),
        words(&["HGETALL", hash]),
        words(&["HDEL", hash, "x"]),
        words(&["TIME"]),
    ]
}

/// The rights that the replies deny.
pub(crate) fn lacking(replies: &[Value]) -> Vec<(&'static Right, ServerError)> {
    let denied = |(right, reply)| {
        let error = error(reply).filter(|it| is_about_rights(it))?;
        Some((right, error.clone()))
    };
    RIGHTS.iter().zip(replies).filter_map(denied).collect()
}

/// The commands that the server refuses although the user has the right to them.
pub(crate) fn refused(replies: &[Value]) -> impl Iterator<Item = (String, ServerError)> {
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
        assert_eq!(RIGHTS.len(), probes("", "", "x", "0").len());
        for rule in &documented {
            assert!(probed.contains(rule), "{rule}");
        }
        assert_eq!(probed.len(), documented.len());
    }

    #[test]
    fn a_probe_asks_for_its_right() {
        for (right, probe) in RIGHTS.iter().zip(probes("", "", "x", "0")) {
            let words = right.rule[1..].split('|').map(str::to_uppercase);
            assert!(
                words.zip(&probe).all(|(word, said)| word == *said),
                "{probe:?}"
            );
        }
    }
}
