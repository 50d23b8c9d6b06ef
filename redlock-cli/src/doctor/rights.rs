//! What the user of a server must be allowed to do, found out by doing it on keys that only the doctor has.

use std::{collections::BTreeMap, mem};

use crate::survey::{Told, is_about_rights, map, refused};

/// A right of the documented rule; a command that needs it, in which `KEY`, `SHARED`, `HASH` and `DATABASE` stand for
/// those of the doctor; and what does not work without it, none if nothing works.
pub(crate) type Right = (&'static str, &'static str, Loss);

type Loss = Option<&'static str>;

const SCRIPTS: Loss = Some("scripts are sent again and again");
const RESTARTS: Loss = Some("restarts with old data, replicas and eviction are not detected");
const DURABLE: Loss = Some("a durable server is quarantined after a restart like any other");
const TRACKING: Loss = Some("a lost lock is noticed at its next renewal only");
const HOLDER: Loss = Some("the holder of a lock cannot be named");
const SHARED: Loss = Some("locks cannot be shared");
const READERS: Loss = Some("readers that have died need memory for as long as others read");
const RENEWALS: Loss = Some("renewals of several locks take a command for each");

/// What the probes write is deleted by the last ones, and expires after a second if the user may not delete it.
const RIGHTS: &[Right] = &[
    ("+eval", "EVAL return(1) 0", None),
    // An unknown script, which is found out after the rights.
    ("+evalsha", "EVALSHA unknown 0", None),
    ("+script|load", "SCRIPT LOAD return(1)", SCRIPTS),
    ("+info", "INFO server", RESTARTS),
    ("+config|get", "CONFIG GET *", DURABLE),
    ("+client|tracking", "CLIENT TRACKING OFF", TRACKING),
    ("+client|caching", "CLIENT CACHING YES", TRACKING),
    ("+client|setname", "CLIENT SETNAME redlock-doctor", HOLDER),
    ("+client|list", "CLIENT LIST", HOLDER),
    ("+select", "SELECT DATABASE", None),
    ("+set", "SET KEY x NX PX 1000", None),
    ("+get", "GET KEY", None),
    ("+mget", "MGET KEY", RENEWALS),
    ("+pttl", "PTTL KEY", None),
    ("+del", "DEL KEY", None),
    ("+zadd", "ZADD SHARED 1 x", SHARED),
    ("+pexpire", "PEXPIRE SHARED 1000", None),
    ("+zscore", "ZSCORE SHARED x", SHARED),
    ("+zrange", "ZRANGE SHARED 0 1", SHARED),
    ("+zremrangebyscore", "ZREMRANGEBYSCORE SHARED 0 0", READERS),
    ("+zrem", "ZREM SHARED x", SHARED),
    ("+hset", "HSET HASH x x", None),
    ("+hget", "HGET HASH x", None),
    ("+hmget", "HMGET HASH x", None),
    ("+hgetall", "HGETALL HASH", None),
    ("+hdel", "HDEL HASH x", None),
    ("+time", "TIME", None),
];

/// One command for each right, in order.
pub(super) fn probes() -> Vec<&'static str> {
    RIGHTS.iter().map(|(_, probe, _)| *probe).collect()
}

/// Notes the rights that the replies to the probes deny, the commands that the server refuses although the user has
/// the right to them, and the settings that one has read.
pub(super) fn examine(told: &mut Told) {
    let replies = mem::take(&mut told.more);
    let (lacks, others): (Vec<_>, Vec<_>) =
        refused(RIGHTS, &replies).partition(|(_, error)| is_about_rights(error));
    told.lacks = lacks;
    for ((rule, ..), error) in others {
        // A script that nobody has, and keys of which the server sends no notices.
        let expected = [("+evalsha", "NOSCRIPT"), ("+client|caching", "ERR")];
        if !expected.contains(&(rule, error.code())) {
            let command = rule[1..].replace('|', " ").to_uppercase();
            told.refusals.push((command, error));
        }
    }
    let mut all = RIGHTS.iter().zip(&replies);
    let settings = all.find(|(right, _)| right.0 == "+config|get");
    told.settings = settings.map_or_else(BTreeMap::new, |(_, reply)| map(reply));
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
        let probed: Vec<&str> = RIGHTS.iter().map(|(rule, ..)| *rule).collect();
        for rule in &documented {
            assert!(probed.contains(rule), "{rule}");
        }
        assert_eq!(probed.len(), documented.len());
    }

    #[test]
    fn a_probe_asks_for_its_right() {
        for (rule, probe, _) in RIGHTS {
            let words = rule[1..].split('|').map(str::to_uppercase);
            let mut asked = words.zip(probe.split(' '));
            assert!(asked.all(|(word, said)| word == said), "{rule}: {probe}");
        }
    }
}
