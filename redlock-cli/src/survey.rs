//! What each server tells of itself, and whether it votes.

use std::{collections::BTreeMap, time::Duration};

use redlock_runtime::{
    __tool::{FORMAT, Names, ServerError, Servers, Value, quarantine, rejection},
    NodeState, Why,
};

use crate::reply::{error, info, is_about_rights, map, millis, words};

/// One server.
#[derive(Debug)]
pub(crate) struct Surveyed {
    pub(crate) address: String,
    /// Or why it tells nothing.
    pub(crate) told: Result<Told, Why>,
}

#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The fields of INFO; none if the user may not read them.
    pub(crate) info: BTreeMap<String, String>,
    /// What the library keeps there.
    pub(crate) record: BTreeMap<String, String>,
    /// It was found as the owner of a slot of a cluster.
    pub(crate) owns_slot: bool,
    /// By its clock, in milliseconds since 1970.
    pub(crate) now: Option<i64>,
    /// How long it stays out after its loss, if it has lost its memory.
    quarantine: Option<Duration>,
    /// The commands that it answers with an error, and the error.
    pub(crate) refusals: Vec<(String, ServerError)>,
}

/// Whether a server votes, as its record says.
#[derive(Debug, PartialEq)]
pub(crate) enum Vote {
    Votes,
    /// No process of the library has used it yet.
    Unused,
    /// It was restarted, and no process has noticed yet.
    Restarted,
    /// It may have lost locks, which was noted so long ago, and stays out for so much longer at the most.
    Quarantined(Option<[Duration; 2]>),
    /// It refuses a command of each vote, with this error.
    Refuses(ServerError),
    /// It can be no node, and why.
    Unfit(String),
}

/// The commands of a survey, as they are called in its findings.
const ASKED: [&str; 4] = ["TIME", "INFO", "HGETALL", "SET"];

pub(crate) async fn survey(servers: &Servers, key_prefix: &str) -> Vec<Surveyed> {
    let commands = |names: &Names| {
        // No lock has such a key, so XX writes nothing. But the server refuses it if it refuses votes.
        let absent = format!("{}{key_prefix}__redlock:status", names.tag);
        vec![
            words(&["TIME"]),
            words(&["INFO"]),
            words(&["HGETALL", &names.hash]),
            words(&["SET", &absent, "x", "XX", "PX", "1"]),
        ]
    };
    let replies = servers.ask(commands).await;
    let replies = replies.into_iter().zip(servers.are_of_clusters());
    let told = replies.map(|(replies, owns_slot)| {
        replies.map(|replies| match &replies[..] {
            [time, all, record, _] => Told {
                owns_slot,
                now: millis(time),
                info: info(all),
                record: map(record),
                refusals: refusals(&replies),
                quarantine: None,
            },
            _ => Told::default(),
        })
    });
    let addresses = servers.addresses().map(str::to_owned);
    let surveyed = addresses.zip(told);
    let mut surveyed: Vec<Surveyed> = surveyed
        .map(|(address, told)| Surveyed { address, told })
        .collect();
    let count = surveyed.len();
    let told = surveyed.iter().filter_map(|one| one.told.as_ref().ok());
    let voters = told.filter(|told| told.vote() == Vote::Votes);
    let longest: Vec<Duration> = voters.filter_map(Told::longest).collect();
    for told in surveyed.iter_mut().filter_map(|one| one.told.as_mut().ok()) {
        told.quarantine = told.millis("max_ttl").map(|max_ttl| {
            let wait = quarantine(count, longest.iter().copied(), max_ttl);
            told.millis("loss_first_start")
                .map_or(wait, |first| first.min(wait))
        });
    }
    surveyed
}

fn refusals(replies: &[Value]) -> Vec<(String, ServerError)> {
    let refused =
        |(command, reply): (&&str, &Value)| Some(((*command).to_owned(), error(reply)?.clone()));
    let refused = ASKED.iter().zip(replies).filter_map(refused);
    // Without that right locks work.
    let is_needed =
        |(command, error): &(String, ServerError)| command != "INFO" || !is_about_rights(error);
    refused.filter(is_needed).collect()
}

impl Told {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.info.get(name).map(String::as_str)
    }

    fn of_record(&self, name: &str) -> Option<&str> {
        self.record.get(name).map(String::as_str)
    }

    fn millis(&self, name: &str) -> Option<Duration> {
        self.of_record(name)?
            .parse()
            .ok()
            .map(Duration::from_millis)
    }

    /// The longest that a key of which it knows can live.
    fn longest(&self) -> Option<Duration> {
        let is_before = |until: i64| self.now.is_some_and(|now| now < until);
        let until = self
            .of_record("longest_until")
            .and_then(|until| until.parse().ok());
        let before = self
            .millis("longest_before")
            .filter(|_| until.is_some_and(is_before));
        self.millis("longest").max(before)
    }

    pub(crate) fn version(&self) -> Option<&str> {
        let of_valkey = self.field("valkey_version");
        of_valkey.or_else(|| self.field("redis_version"))
    }

    pub(crate) fn uptime(&self) -> Option<Duration> {
        let seconds = self.field("uptime_in_seconds")?.parse().ok()?;
        Some(Duration::from_secs(seconds))
    }

    /// The policy by which it may delete locks.
    pub(crate) fn evicts(&self) -> Option<&str> {
        let policy = self
            .field("maxmemory_policy")
            .filter(|it| *it != "noeviction");
        policy.filter(|_| self.field("maxmemory").is_some_and(|limit| limit != "0"))
    }

    /// What it is, if that can be no node.
    pub(crate) fn unfit_role(&self) -> Option<&'static str> {
        let is = |name, value| self.field(name) == Some(value);
        Some(if is("redis_mode", "sentinel") {
            "is a Sentinel: write its master as `redis+sentinel://s1,s2,s3/name`"
        } else if is("cluster_enabled", "1") && !self.owns_slot {
            "belongs to a Redis Cluster: name the cluster, `redis+cluster://...`, or servers with `cluster-enabled no`"
        } else if is("role", "slave") {
            "is a replica: name its master"
        } else {
            return None;
        })
    }

    /// Of its quarantine.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        match self.vote() {
            Vote::Quarantined(times) => times.map(|[_, left]| left),
            _ => None,
        }
    }

    pub(crate) fn vote(&self) -> Vote {
        if let Some(role) = self.unfit_role() {
            return Vote::Unfit(role.to_owned());
        }
        if let Some(policy) = self.evicts() {
            return Vote::Unfit(format!("may delete locks (maxmemory-policy {policy})"));
        }
        if let Some((_, error)) = self.refusals.first() {
            return Vote::Refuses(error.clone());
        }
        if let Some(other) = self.other_format() {
            return Vote::Unfit(other);
        }
        let is_of_this = |process: &str| match (self.of_record(process), self.field("run_id")) {
            // A master that Sentinels name is marked with its term of office behind its process.
            (Some(noted), Some(runs)) => noted.is_empty() || noted.starts_with(runs),
            _ => true,
        };
        let [is_lost, is_admitted] = ["loss", "admission"].map(|it| self.of_record(it).is_some());
        // An admission beside a loss counts for those alone who assume that nothing was forgotten.
        if is_lost && is_of_this("loss_server") {
            let age = || {
                let begin: i64 = self.of_record("loss_begin")?.parse().ok()?;
                let age = u64::try_from(self.now?.checked_sub(begin)?).ok()?;
                let age = Duration::from_millis(age);
                Some([age, self.quarantine?.saturating_sub(age)])
            };
            return Vote::Quarantined(age());
        }
        match is_admitted {
            true if is_of_this("server") => Vote::Votes,
            false if !is_lost => Vote::Unused,
            _ => Vote::Restarted,
        }
    }

    /// What another release has noted there, which this one does not understand, in words.
    pub(crate) fn other_format(&self) -> Option<String> {
        let theirs = self.of_record("format")?.parse().ok()?;
        let ours = FORMAT;
        (theirs != ours).then(|| NodeState::OtherFormat { theirs, ours }.to_string())
    }
}

impl Vote {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Votes => "votes".to_owned(),
            Self::Unused => "has no record: unused yet, or emptied".to_owned(),
            Self::Restarted => "was restarted, which no process has noticed yet".to_owned(),
            Self::Quarantined(Some([age, Duration::ZERO])) => {
                format!("quarantined {age:.1?} ago, and votes again once a process uses it")
            }
            Self::Quarantined(Some([age, left])) => {
                format!("quarantined {age:.1?} ago, for up to {left:.1?} more")
            }
            Self::Quarantined(None) => "quarantined".to_owned(),
            Self::Refuses(error) => {
                let message = error.to_string().into();
                let reason = rejection(error);
                NodeState::Refuses { reason, message }.to_string()
            }
            Self::Unfit(why) => why.clone(),
        }
    }

    /// For programs.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Votes => "votes",
            Self::Unused => "unused",
            Self::Restarted => "restarted",
            Self::Quarantined(_) => "quarantined",
            Self::Refuses(_) => "refuses",
            Self::Unfit(_) => "unfit",
        }
    }
}
