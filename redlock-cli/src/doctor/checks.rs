//! What is wrong with a node set, by what its servers have told.

use std::{collections::BTreeMap, time::Duration};

use redlock_runtime::{
    __tool::{ClockReading, ServerError, rejection},
    Rejection,
};

use super::{Examination, Examined, Finding, Level, Level::*};
use crate::{look::rounded, survey::Vote};

/// Clocks that are synchronized differ by less, in seconds.
const CLOCK_DIFFERENCE: f64 = 0.25;

/// Leases allow for a clock that runs faster by this part.
const CLOCK_DRIFT: f64 = 0.01;

/// A lock that is free takes one round trip, and a round waits for 50 ms at the least.
const LONG_ROUND_TRIP: Duration = Duration::from_millis(20);

/// Later it is no news.
const RECENTLY: Duration = Duration::from_secs(600);

pub(super) fn all(examined: &[Examined]) -> Vec<Finding> {
    let mut findings = Findings(Vec::new());
    findings.of_number(examined.len());
    for Examined {
        address,
        database,
        told,
    } in examined
    {
        match told {
            Ok(told) => {
                let mut here = Here {
                    address,
                    findings: &mut findings,
                };
                here.of_role(told);
                here.of_refusals(told);
                here.of_memory(told);
                here.of_persistence(told);
                here.of_rights(told, *database);
                here.of_connection(told);
                here.of_vote(told);
            }
            Err(reason) => {
                let text = format!("cannot be asked ({reason})");
                findings.add(Error, "reach", Some(address), text);
            }
        }
    }
    findings.of_sameness(examined);
    findings.of_differences(examined);
    findings.of_clocks(examined);
    findings.0
}

struct Findings(Vec<Finding>);

/// About one server.
struct Here<'a> {
    address: &'a str,
    findings: &'a mut Findings,
}

impl Findings {
    fn add(
        &mut self,
        level: Level,
        check: &'static str,
        node: Option<&str>,
        text: impl Into<String>,
    ) {
        self.0.push(Finding {
            level,
            check,
            node: node.map(str::to_owned),
            text: text.into(),
        });
    }

    fn of_number(&mut self, count: usize) {
        match count {
            1 => self.add(
                Warning,
                "number",
                None,
                "there is one server: without it there is no lock. Use three or five",
            ),
            _ if count.is_multiple_of(2) => {
                let text = format!(
                    "with {count} servers, no more may fail than with {}: use an odd number",
                    count - 1
                );
                self.add(Warning, "number", None, text);
            }
            _ => {}
        }
    }

    fn of_sameness(&mut self, examined: &[Examined]) {
        let mut by_process: BTreeMap<&str, &str> = BTreeMap::new();
        let mut by_host: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for one in examined {
            let process = one
                .told
                .as_ref()
                .ok()
                .and_then(|it| it.told.field("run_id"));
            if let Some(process) = process {
                match by_process.get(process) {
                    Some(first) => {
                        let text =
                            format!("is the same server as {first}, which must not vote twice");
                        self.add(Error, "distinct", Some(&one.address), text);
                    }
                    None => drop(by_process.insert(process, &one.address)),
                }
            }
            let host = one.address.rsplit_once(':').map_or("", |(host, _)| host);
            by_host.entry(host).or_default().push(&one.address);
        }
        for (host, nodes) in by_host.into_iter().filter(|(_, nodes)| nodes.len() > 1) {
            let (count, host) = (
                nodes.len(),
                if host.is_empty() {
                    "this machine"
                } else {
                    host
                },
            );
            let text = format!("{count} servers are on {host}, and fail together");
            self.add(Warning, "hosts", None, text);
        }
    }

    fn of_differences(&mut self, examined: &[Examined]) {
        let told = |one: &'_ Examined| {
            one.told.as_ref().ok().map(|it| &it.told).map(|told| {
                (
                    told.version().map(str::to_owned),
                    told.record.get("max_ttl").cloned(),
                )
            })
        };
        let told: Vec<_> = examined.iter().filter_map(told).collect();
        let versions = distinct(told.iter().filter_map(|(version, _)| version.clone()));
        if versions.len() > 1 {
            let text = format!(
                "the servers have different versions: {}",
                versions.join(", ")
            );
            self.add(Warning, "version", None, text);
        }
        let longest = distinct(told.iter().filter_map(|(_, longest)| longest.clone()));
        if longest.len() > 1 {
            let text = format!(
                "processes with different `max_lease` or `guard_band` use the servers: the longest keys are \
                 {} ms",
                longest.join(" and ")
            );
            self.add(Error, "max-lease", None, text);
        }
        let databases = distinct(examined.iter().map(|one| one.database.to_string()));
        if databases.len() > 1 {
            let text = format!(
                "the URLs name different databases ({}): all clients must name the same one of a server",
                databases.join(", ")
            );
            self.add(Warning, "database", None, text);
        }
    }

    fn of_clocks(&mut self, examined: &[Examined]) {
        let ahead = |clock: &ClockReading| {
            let [theirs, ours] = clock.times.map(|time| time.as_secs_f64());
            theirs - ours
        };
        for Examined { address, told, .. } in examined {
            let Some([first, second]) = told.as_ref().ok().and_then(|it| it.clocks) else {
                continue;
            };
            let by = ahead(&second);
            if by.abs() > CLOCK_DIFFERENCE {
                let way = if by > 0.0 { "ahead of" } else { "behind" };
                let text = format!(
                    "its clock is {:.1} s {way} the clock of this machine: synchronize both by NTP",
                    by.abs()
                );
                self.add(Error, "clock", Some(address), text);
            }
            let gain = by - ahead(&first);
            let doubt = (first.round_trip + second.round_trip).as_secs_f64() / 2.0;
            let passed = second.times[1].saturating_sub(first.times[1]).as_secs_f64();
            if gain.abs() > passed * CLOCK_DRIFT + doubt {
                let way = if gain > 0.0 { "faster" } else { "slower" };
                let text = format!(
                    "its clock runs {:.1} % {way} than the clock of this machine, and leases allow for 1 %",
                    100.0 * gain.abs() / passed
                );
                self.add(Error, "clock-speed", Some(address), text);
            }
        }
    }
}

fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    texts.dedup();
    texts
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

impl Here<'_> {
    fn add(&mut self, level: Level, check: &'static str, text: impl Into<String>) {
        self.findings.add(level, check, Some(self.address), text);
    }

    fn of_role(&mut self, it: &Examination) {
        let told = &it.told;
        if let Some(role) = told.unfit_role() {
            self.add(Error, "role", role);
        } else if told
            .field("connected_slaves")
            .is_some_and(|count| count != "0")
        {
            let text = "has replicas: one that takes over is quarantined, so another node is a better use of it";
            self.add(Note, "role", text);
        }
        let least = it.settings.get("min-replicas-to-write");
        if least.is_some_and(|least| least != "0") {
            let text =
                "refuses all locks while it has too few replicas: set `min-replicas-to-write 0`";
            self.add(Warning, "role", text);
        }
    }

    /// Each error that does not come from the rights of the user, once.
    fn of_refusals(&mut self, it: &Examination) {
        let mut refused: BTreeMap<String, (&ServerError, Vec<&str>)> = BTreeMap::new();
        for (command, error) in &it.told.refusals {
            let is_known = it.lacks.iter().any(|(_, known)| known == error);
            let of_error = refused.entry(error.to_string());
            let (_, commands) = of_error.or_insert((error, Vec::new()));
            if !is_known && !commands.contains(&&**command) {
                commands.push(command);
            }
        }
        for (error, commands) in refused.into_values().filter(|(_, it)| !it.is_empty()) {
            let commands = commands.join(", ");
            let text = format!("refuses {commands} ({error}){}", remedy(error));
            self.add(Error, "refusal", text);
        }
    }

    fn of_memory(&mut self, it: &Examination) {
        let told = &it.told;
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

    fn of_persistence(&mut self, it: &Examination) {
        let setting = |name| it.settings.get(name).map(String::as_str);
        let appends = setting("appendonly") == Some("yes");
        let is_durable = setting("appendfsync") == Some("always")
            && setting("no-appendfsync-on-rewrite") == Some("no");
        let saves = setting("save").is_some_and(|save| !save.is_empty());
        if appends && is_durable {
            self.add(
                Note,
                "persistence",
                "writes each lock to disk, and votes at once after a restart",
            );
        } else if appends || saves {
            let text = "comes back from a restart without the last locks, and is quarantined like an empty server. \
                 Turn persistence off, or set `appendonly yes`, `appendfsync always` and \
                 `no-appendfsync-on-rewrite no`";
            self.add(Warning, "persistence", text);
        }
    }

    fn of_rights(&mut self, it: &Examination, database: i64) {
        for (right, error) in &it.lacks {
            let rule = right.rule;
            if rule == "+select" && database == 0 {
                continue;
            }
            match right.loss {
                Some(loss) => {
                    self.add(Warning, "rights", format!("lacks {rule}: {loss} ({error})"))
                }
                None => self.add(Error, "rights", format!("lacks {rule} ({error})")),
            }
        }
    }

    fn of_connection(&mut self, it: &Examination) {
        if let Some(idle) = it.settings.get("timeout").filter(|it| *it != "0") {
            let text = format!(
                "closes connections that were idle for {idle} s, also those of processes that lock: set `timeout 0`"
            );
            self.add(Warning, "connections", text);
        }
        let round_trip = it.clocks.map(|[first, _]| first.round_trip);
        if let Some(long) = round_trip.filter(|it| *it > LONG_ROUND_TRIP) {
            let text = format!(
                "takes {long:.1?} to reply: each lock takes as long as the slowest of a majority"
            );
            self.add(Warning, "latency", text);
        }
    }

    fn of_vote(&mut self, it: &Examination) {
        if let Some(text) = it.told.other_format() {
            self.add(Error, "format", text);
        }
        match it.told.vote() {
            vote @ (Vote::Quarantined(_) | Vote::Restarted) => {
                self.add(Warning, "vote", vote.text());
            }
            Vote::Votes | Vote::Unused | Vote::Refuses(_) | Vote::Unfit(_) => {}
        }
        if let Some(up) = it.told.uptime().filter(|up| *up < RECENTLY) {
            let text = format!("was started {} ago", rounded(up.as_secs()));
            self.add(Note, "restart", text);
        }
    }
}
