//! What each server tells of itself, and whether it votes.

use std::{
    collections::BTreeMap,
    process,
    time::{Duration, SystemTime},
};

use redlock_runtime::{
    __tool::{
        ClockReading, FORMAT, Names, ServerError, Servers, Value, from_redis_value, quarantine,
        refuses, rejection,
    },
    NodeState, Rejection, Why,
};

use crate::doctor::Right;

/// One server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) database: i64,
    /// Or why it tells nothing.
    pub(crate) told: Result<Told, Why>,
}

/// Without what the user may not read.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The fields of INFO.
    info: BTreeMap<String, String>,
    /// What the library keeps there.
    record: BTreeMap<String, String>,
    /// It was found as the owner of a slot of a cluster.
    owns_slot: bool,
    /// By its clock, since 1970.
    now: Option<Duration>,
    /// How long it stays out after its loss, if it has lost its memory.
    quarantine: Option<Duration>,
    /// The commands that it answers with an error, and the error.
    pub(crate) refusals: Vec<(String, ServerError)>,
    /// What it replies to more commands.
    pub(crate) more: Vec<Value>,
    /// For the doctor: its clock, twice.
    pub(crate) clocks: Option<[ClockReading; 2]>,
    /// For the doctor: the settings.
    pub(crate) settings: BTreeMap<String, String>,
    /// For the doctor: the rights that the user lacks, and what the server says.
    pub(crate) lacks: Vec<(&'static Right, ServerError)>,
}

/// Whether a server votes, as its record says.
pub(crate) struct Vote {
    /// For programs.
    pub(crate) name: &'static str,
    pub(crate) text: String,
    /// How much longer it is quarantined at the most.
    pub(crate) remaining: Option<Duration>,
}

/// The commands of a survey. XX writes nothing, since there is no such key, but the server refuses it if it refuses
/// votes.
const ASKED: [&str; 4] = ["TIME", "INFO", "HGETALL NODE", "SET KEY x XX PX 1"];

/// Asks for `more`, too, which the caller understands. `KEY`, `SHARED` and `HASH` in a command are names that only this
/// survey has, `NODE` is the node's own hash, and `DATABASE` the number of the database.
pub(crate) async fn survey(servers: &Servers, more: &[&str]) -> Vec<Server> {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let name = format!("doctor:{}:{}", process::id(), now.as_nanos());
    let commands = |names: &Names| {
        let word = |word: &str| match word {
            "KEY" => format!("{}__{name}", names.prefix),
            "SHARED" => format!("{}__{name}:shared", names.prefix),
            "HASH" => format!("{}__redlock:{name}", names.tag),
            "NODE" => names.hash.clone(),
            "DATABASE" => names.database.to_string(),
            word => word.to_owned(),
        };
        let words = |command: &&str| command.split(' ').map(word).collect();
        ASKED.iter().chain(more).map(words).collect()
    };
    let replies = servers.ask(commands).await;
    let mut surveyed = Vec::new();
    for (names, replies) in servers.names().zip(replies) {
        let told = replies.map(|replies| match &replies[..] {
            [clock, all, record, _, more @ ..] => Told {
                owns_slot: !names.tag.is_empty(),
                now: time(clock),
                info: info(all),
                record: map(record),
                refusals: refusals(&replies),
                more: more.to_vec(),
                ..Told::default()
            },
            _ => Told::default(),
        });
        surveyed.push(Server {
            address: names.address,
            database: names.database,
            told,
        });
    }
    let count = surveyed.len();
    let told = surveyed.iter().flat_map(|server| &server.told);
    let voters = told.filter(|told| told.votes());
    let longest: Vec<Duration> = voters.filter_map(Told::longest).collect();
    for told in surveyed.iter_mut().flat_map(|server| &mut server.told) {
        let first = told.millis("loss_first_start").unwrap_or(Duration::MAX);
        let wait = |max_ttl| first.min(quarantine(count, longest.iter().copied(), max_ttl));
        told.quarantine = told.millis("max_ttl").map(wait);
    }
    surveyed
}

fn refusals(replies: &[Value]) -> Vec<(String, ServerError)> {
    let name = |command: &str| command.split(' ').next().unwrap_or_default().to_owned();
    let refused = refused(&ASKED, replies).map(|(command, error)| (name(command), error));
    // Without that right locks work.
    let is_needed =
        |(command, error): &(String, ServerError)| command != "INFO" || !is_about_rights(error);
    refused.filter(is_needed).collect()
}

impl Told {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.info.get(name).map(String::as_str)
    }

    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    pub(crate) fn of_record(&self, name: &str) -> Option<&str> {
        self.record.get(name).map(String::as_str)
    }

    fn millis(&self, name: &str) -> Option<Duration> {
        let millis = self.of_record(name)?.parse().ok()?;
        Some(Duration::from_millis(millis))
    }

    /// The longest that a key of which it knows can live.
    fn longest(&self) -> Option<Duration> {
        let times = self.now.zip(self.millis("longest_until"));
        let is_before = times.is_some_and(|(now, until)| now < until);
        let before = self.millis("longest_before").filter(|_| is_before);
        self.millis("longest").max(before)
    }

    pub(crate) fn version(&self) -> Option<&str> {
        let of_valkey = self.field("valkey_version");
        of_valkey.or_else(|| self.field("redis_version"))
    }

    /// In seconds.
    pub(crate) fn uptime(&self) -> Option<u64> {
        self.field("uptime_in_seconds")?.parse().ok()
    }

    /// The policy by which it may delete locks.
    pub(crate) fn evicts(&self) -> Option<&str> {
        let is_limited = self.field("maxmemory").is_some_and(|limit| limit != "0");
        let policy = self.field("maxmemory_policy").filter(|_| is_limited);
        policy.filter(|it| *it != "noeviction")
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

    pub(crate) fn votes(&self) -> bool {
        self.vote().name == "votes"
    }

    pub(crate) fn vote(&self) -> Vote {
        if let Some(role) = self.unfit_role() {
            return Vote::new("unfit", role);
        }
        if let Some(policy) = self.evicts() {
            let policy = policy.into();
            return Vote::new("unfit", NodeState::Evicts { policy }.to_string());
        }
        if let Some((_, error)) = self.refusals.first() {
            let text = refuses(rejection(error), &error.to_string());
            return Vote::new("refuses", text);
        }
        if let Some(other) = self.other_format() {
            return Vote::new("unfit", other);
        }
        let is_of_this = |process: &str| match (self.of_record(process), self.field("run_id")) {
            // A master that Sentinels name is marked with its term of office behind its process.
            (Some(noted), Some(runs)) => noted.is_empty() || noted.starts_with(runs),
            _ => true,
        };
        let [is_lost, is_admitted] = ["loss", "admission"].map(|it| self.of_record(it).is_some());
        // An admission beside a loss counts for those alone who assume that nothing was forgotten.
        if is_lost && is_of_this("loss_server") {
            return self.quarantined();
        }
        let restarted = "was restarted, which no process has noticed yet";
        match is_admitted {
            true if is_of_this("server") => Vote::new("votes", "votes"),
            false if !is_lost => Vote::new("unused", "has no record: unused yet, or emptied"),
            _ => Vote::new("restarted", restarted),
        }
    }

    fn quarantined(&self) -> Vote {
        let times = self.now.zip(self.millis("loss_begin"));
        let age = times.and_then(|(now, begin)| now.checked_sub(begin));
        let Some((age, all)) = age.zip(self.quarantine) else {
            return Vote::new("quarantined", "quarantined");
        };
        let left = all.saturating_sub(age);
        let rest = match left.is_zero() {
            true => "and votes again once a process uses it".to_owned(),
            false => format!("for up to {left:.1?} more"),
        };
        Vote {
            remaining: Some(left),
            ..Vote::new("quarantined", format!("quarantined {age:.1?} ago, {rest}"))
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
    fn new(name: &'static str, text: impl Into<String>) -> Self {
        Self {
            name,
            text: text.into(),
            remaining: None,
        }
    }
}

/// Of what was asked, that to which the server replies with an error, and the error.
pub(crate) fn refused<'a, T>(
    asked: &'a [T],
    replies: &[Value],
) -> impl Iterator<Item = (&'a T, ServerError)> {
    let refused = |(asked, reply): (&'a T, &Value)| match reply {
        Value::ServerError(error) => Some((asked, error.clone())),
        _ => None,
    };
    asked.iter().zip(replies).filter_map(refused)
}

/// Whether this error of a server is about what the user may do.
pub(crate) fn is_about_rights(error: &ServerError) -> bool {
    matches!(
        rejection(error),
        Rejection::NoPermission | Rejection::UnknownCommand
    )
}

/// Names and values, as of HGETALL and CONFIG GET.
pub(crate) fn map(value: &Value) -> BTreeMap<String, String> {
    from_redis_value(value.clone()).unwrap_or_default()
}

/// The fields of INFO.
fn info(value: &Value) -> BTreeMap<String, String> {
    let text: String = from_redis_value(value.clone()).unwrap_or_default();
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    fields.map(owned).collect()
}

/// The time since 1970 from the reply to TIME.
fn time(value: &Value) -> Option<Duration> {
    let (seconds, micros) = from_redis_value(value.clone()).ok()?;
    Some(Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros)))
}
