//! What is wrong with a node set, by what its servers have told.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use redlock_runtime::{
    __tool::{ClockReading, ServerError, rejection},
    Rejection,
};

use super::{Finding, Level, Level::*, Right};
use crate::{
    look::rounded,
    survey::{Server, Told},
};

/// Clocks that are synchronized differ by less, in seconds.
const CLOCK_DIFFERENCE: f64 = 0.25;

/// Leases allow for a clock that runs faster by this part.
const CLOCK_DRIFT: f64 = 0.01;

/// A lock that is free takes one round trip, and a round waits for 50 ms at the least.
const LONG_ROUND_TRIP: Duration = Duration::from_millis(20);

/// Later it is no news, in seconds.
const RECENTLY: u64 = 600;

pub(super) fn all(servers: &[Server]) -> Vec<Finding> {
    let mut findings = Findings::default();
    findings.of_number(servers.len());
    for server in servers {
        findings.node = Some(&server.address);
        match &server.told {
            Ok(told) => {
                findings.of_role(told);
                findings.of_refusals(told);
                findings.of_memory(told);
                findings.of_persistence(told);
                findings.of_rights(told, server.database);
                findings.of_connection(told);
                findings.of_vote(told);
                findings.of_clock(told);
            }
            Err(reason) => findings.add(Error, "reach", format!("cannot be asked ({reason})")),
        }
    }
    findings.of_processes(servers);
    findings.node = None;
    findings.of_hosts(servers);
    findings.of_differences(servers);
    findings.found
}

#[derive(Default)]
struct Findings<'a> {
    /// The server that is looked at; none for what is wrong with all.
    node: Option<&'a str>,
    found: Vec<Finding>,
}

impl<'a> Findings<'a> {
    fn add(&mut self, level: Level, check: &'static str, text: impl Into<String>) {
        self.found.push(Finding {
            level,
            check,
            node: self.node.map(str::to_owned),
            text: text.into(),
        });
    }

    fn of_number(&mut self, count: usize) {
        if count == 1 {
            let text = "there is one server: without it there is no lock. Use three or five";
            self.add(Warning, "number", text);
        } else if count.is_multiple_of(2) {
            let fewer = count - 1;
            let text = format!(
                "with {count} servers, no more may fail than with {fewer}: use an odd number"
            );
            self.add(Warning, "number", text);
        }
    }

    fn of_processes(&mut self, servers: &'a [Server]) {
        let mut known: BTreeMap<&str, &str> = BTreeMap::new();
        for Server { address, told, .. } in servers {
            if let Ok(told) = told
                && let Some(process) = told.field("run_id")
            {
                let first = known.entry(process).or_insert(address);
                if *first != address {
                    self.node = Some(address);
                    let text = format!("is the same server as {first}, which must not vote twice");
                    self.add(Error, "distinct", text);
                }
            }
        }
    }

    fn of_hosts(&mut self, servers: &[Server]) {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for server in servers {
            let host = server.address.rsplit_once(':');
            let host = host.map_or("this machine", |(host, _)| host);
            *counts.entry(host).or_default() += 1;
        }
        for (host, count) in counts.into_iter().filter(|(_, count)| *count > 1) {
            let text = format!("{count} servers are on {host}, and fail together");
            self.add(Warning, "hosts", text);
        }
    }

    fn of_differences(&mut self, servers: &[Server]) {
        let told = || servers.iter().flat_map(|server| &server.told);
        if let Some(versions) = differing(told().filter_map(Told::version), ", ") {
            let text = format!("the servers have different versions: {versions}");
            self.add(Warning, "version", text);
        }
        let longest = told().filter_map(|told| told.of_record("max_ttl"));
        if let Some(longest) = differing(longest, " and ") {
            let text = format!(
                "processes with different `max_lease` or `guard_band` use the servers: the longest keys are \
                 {longest} ms"
            );
            self.add(Error, "max-lease", text);
        }
        let databases = servers.iter().map(|server| server.database.to_string());
        if let Some(databases) = differing(databases, ", ") {
            let text = format!(
                "the URLs name different databases ({databases}): all clients must name the same one of a server"
            );
            self.add(Warning, "database", text);
        }
    }

    fn of_clock(&mut self, told: &Told) {
        let Some([first, second]) = &told.clocks else {
            return;
        };
        let ahead = |clock: &ClockReading| {
            let [theirs, ours] = clock.times.map(|time| time.as_secs_f64());
            theirs - ours
        };
        let by = ahead(second);
        if by.abs() > CLOCK_DIFFERENCE {
            let way = if by > 0.0 { "ahead of" } else { "behind" };
            let text = format!(
                "its clock is {:.1} s {way} the clock of this machine: synchronize both by NTP",
                by.abs()
            );
            self.add(Error, "clock", text);
        }
        let gain = by - ahead(first);
        let doubt = (first.round_trip + second.round_trip).as_secs_f64() / 2.0;
        let passed = second.times[1].saturating_sub(first.times[1]).as_secs_f64();
        if gain.abs() > passed * CLOCK_DRIFT + doubt {
            let way = if gain > 0.0 { "faster" } else { "slower" };
            let text = format!(
                "its clock runs {:.1} % {way} than the clock of this machine, and leases allow for 1 %",
                100.0 * gain.abs() / passed
            );
            self.add(Error, "clock-speed", text);
        }
    }

    fn of_role(&mut self, told: &Told) {
        if let Some(role) = told.unfit_role() {
            self.add(Error, "role", role);
        } else if is_set(told.field("connected_slaves")) {
            let text = "has replicas: one that takes over is quarantined, so another node is a better use of it";
            self.add(Note, "role", text);
        }
        if is_set(told.setting("min-replicas-to-write")) {
            let text =
                "refuses all locks while it has too few replicas: set `min-replicas-to-write 0`";
            self.add(Warning, "role", text);
        }
    }

    /// Each error that does not come from the rights of the user, once.
    fn of_refusals(&mut self, told: &Told) {
        let mut refused: BTreeMap<String, (&ServerError, Vec<&str>)> = BTreeMap::new();
        for (command, error) in &told.refusals {
            if told.lacks.iter().any(|(_, known)| known == error) {
                continue;
            }
            let of_error = refused.entry(error.to_string());
            let (_, commands) = of_error.or_insert((error, Vec::new()));
            if !commands.contains(&&**command) {
                commands.push(command);
            }
        }
        for (error, commands) in refused.into_values() {
            let commands = commands.join(", ");
            let text = format!("refuses {commands} ({error}){}", remedy(error));
            self.add(Error, "refusal", text);
        }
    }

    fn of_memory(&mut self, told: &Told) {
        let policy = told.field("maxmemory_policy").unwrap_or("noeviction");
        if told.evicts().is_some() {
            let text = format!(
                "may delete locks that are held: set `maxmemory-policy noeviction`, not {policy}"
            );
            self.add(Error, "eviction", text);
        } else if policy != "noeviction" {
            let text = format!(
                "`maxmemory-policy` is {policy}, which counts once `maxmemory` is set: set `noeviction`"
            );
            self.add(Warning, "eviction", text);
        }
        let number = |name| told.field(name).and_then(|text| text.parse::<u64>().ok());
        if let (Some(limit @ 1..), Some(used)) = (number("maxmemory"), number("used_memory"))
            && used > limit / 10 * 9
        {
            let text = format!("uses {used} of {limit} bytes: without memory it grants no locks");
            self.add(Warning, "memory", text);
        }
    }

    fn of_persistence(&mut self, told: &Told) {
        let is = |name, value| told.setting(name) == Some(value);
        let appends = is("appendonly", "yes");
        let is_durable = is("appendfsync", "always") && is("no-appendfsync-on-rewrite", "no");
        let saves = told.setting("save").is_some_and(|save| !save.is_empty());
        let was_durable = told.votes() && told.of_record("durable") == Some("1");
        if appends && is_durable {
            let text = "writes each lock to disk, and votes at once after a restart";
            self.add(Note, "persistence", text);
        } else if was_durable && told.setting("appendonly").is_some() {
            let text = "no longer writes each lock to disk, and may vote after a crash without the last locks: undo the \
                 `CONFIG SET`, or write the setting into its file and restart it";
            self.add(Error, "persistence", text);
        } else if appends || saves {
            let text = "comes back from a restart without the last locks, and is quarantined like an empty server. \
                 Turn persistence off, or set `appendonly yes`, `appendfsync always` and \
                 `no-appendfsync-on-rewrite no`";
            self.add(Warning, "persistence", text);
        }
    }

    fn of_rights(&mut self, told: &Told, database: i64) {
        for (Right(rule, _, loss), error) in &told.lacks {
            match loss {
                None if *rule == "+select" && database == 0 => {}
                None => self.add(Error, "rights", format!("lacks {rule} ({error})")),
                Some(loss) => {
                    self.add(Warning, "rights", format!("lacks {rule}: {loss} ({error})"))
                }
            }
        }
    }

    fn of_connection(&mut self, told: &Told) {
        if let Some(idle) = told.setting("timeout").filter(|it| *it != "0") {
            let text = format!(
                "closes connections that were idle for {idle} s, also those of processes that lock: set `timeout 0`"
            );
            self.add(Warning, "connections", text);
        }
        let round_trip = told.clocks.as_ref().map(|[first, _]| first.round_trip);
        if let Some(long) = round_trip.filter(|it| *it > LONG_ROUND_TRIP) {
            let text = format!(
                "takes {long:.1?} to reply: each lock takes as long as the slowest of a majority"
            );
            self.add(Warning, "latency", text);
        }
    }

    fn of_vote(&mut self, told: &Told) {
        if let Some(text) = told.other_format() {
            self.add(Error, "format", text);
        }
        let vote = told.vote();
        if vote.name == "quarantined" || vote.name == "restarted" {
            self.add(Warning, "vote", vote.text);
        }
        if let Some(up) = told.uptime().filter(|up| *up < RECENTLY) {
            let text = format!("was started {} ago", rounded(up));
            self.add(Note, "restart", text);
        }
    }
}

/// A number other than 0.
fn is_set(value: Option<&str>) -> bool {
    value.is_some_and(|value| value != "0")
}

/// All of them, with this between two, if they are not all equal.
fn differing(texts: impl Iterator<Item = impl Into<String>>, between: &str) -> Option<String> {
    let texts: BTreeSet<String> = texts.map(Into::into).collect();
    let differ = texts.len() > 1;
    differ.then(|| Vec::from_iter(texts).join(between))
}

/// The texts of other errors say it themselves.
fn remedy(error: &ServerError) -> &'static str {
    match rejection(error) {
        Rejection::OutOfMemory => ": without memory it grants no locks, so raise `maxmemory`",
        Rejection::Busy => ": a script of another client runs for long; `SCRIPT KILL` ends it",
        Rejection::CannotSave => {
            ": it cannot save to disk, so mend that, or turn persistence off by `save \"\"`"
        }
        Rejection::TooFewReplicas => ": set `min-replicas-to-write 0`",
        _ => "",
    }
}
