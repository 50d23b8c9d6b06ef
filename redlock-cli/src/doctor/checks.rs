//! What is wrong with a node set, by what its servers have told.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use redlock_runtime::__tool::{ClockReading, ServerError, rejection, remedy};

use super::Finding;
use crate::survey::{Server, Told};

/// Clocks that are synchronized differ by less, in seconds.
const CLOCK_DIFFERENCE: f64 = 0.25;

/// Leases allow for a clock that runs faster by this part.
const CLOCK_DRIFT: f64 = 0.01;

/// A lock that is free takes one round trip, and a round waits for 50 ms at the least.
const LONG_ROUND_TRIP: Duration = Duration::from_millis(20);

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
            Err(reason) => findings.error("reach", format!("cannot be asked ({reason})")),
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
    fn error(&mut self, check: &'static str, text: impl Into<String>) {
        self.add(true, check, text.into());
    }

    fn warning(&mut self, check: &'static str, text: impl Into<String>) {
        self.add(false, check, text.into());
    }

    fn add(&mut self, is_error: bool, check: &'static str, text: String) {
        let node = self.node.map(str::to_owned);
        self.found.push(Finding {
            is_error,
            check,
            node,
            text,
        });
    }

    fn of_number(&mut self, count: usize) {
        if count == 1 {
            let text = "there is one server: without it there is no lock. Use three or five";
            self.warning("number", text);
        } else if count.is_multiple_of(2) {
            let fewer = count - 1;
            let text = format!(
                "with {count} servers, no more may fail than with {fewer}: use an odd number"
            );
            self.warning("number", text);
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
                    self.error("distinct", text);
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
            self.warning("hosts", text);
        }
    }

    fn of_differences(&mut self, servers: &[Server]) {
        let told = servers.iter().flat_map(|server| &server.told);
        let longest = told.filter_map(|told| told.of_record("max_ttl"));
        if let Some(longest) = differing(longest, " and ") {
            let text = format!(
                "processes with different `max_lease` or `guard_band` use the servers: the longest keys are \
                 {longest} ms"
            );
            self.error("max-lease", text);
        }
        let databases = servers.iter().map(|server| server.database.to_string());
        if let Some(databases) = differing(databases, ", ") {
            let text = format!(
                "the URLs name different databases ({databases}): all clients must name the same one of a server"
            );
            self.warning("database", text);
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
            self.error("clock", text);
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
            self.error("clock-speed", text);
        }
    }

    fn of_role(&mut self, told: &Told) {
        if let Some(role) = told.unfit_role() {
            self.error("role", role);
        }
        let refused = told.setting("min-replicas-to-write");
        if refused.is_some_and(|replicas| replicas != "0") {
            let text =
                "refuses all locks while it has too few replicas: set `min-replicas-to-write 0`";
            self.warning("role", text);
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
            let remedy = remedy(rejection(error)).map_or_else(String::new, |it| format!(": {it}"));
            let text = format!("refuses {commands} ({error}){remedy}");
            self.error("refusal", text);
        }
    }

    fn of_memory(&mut self, told: &Told) {
        let policy = told.field("maxmemory_policy").unwrap_or("noeviction");
        if told.evicts().is_some() {
            let text = format!(
                "may delete locks that are held: set `maxmemory-policy noeviction`, not {policy}"
            );
            self.error("eviction", text);
        } else if policy != "noeviction" {
            let text = format!(
                "`maxmemory-policy` is {policy}, which counts once `maxmemory` is set: set `noeviction`"
            );
            self.warning("eviction", text);
        }
        let number = |name| told.field(name).and_then(|text| text.parse::<u64>().ok());
        if let (Some(limit @ 1..), Some(used)) = (number("maxmemory"), number("used_memory"))
            && used > limit / 10 * 9
        {
            let text = format!("uses {used} of {limit} bytes: without memory it grants no locks");
            self.warning("memory", text);
        }
    }

    fn of_persistence(&mut self, told: &Told) {
        let is = |name, value| told.setting(name) == Some(value);
        let appends = is("appendonly", "yes");
        let is_durable = is("appendfsync", "always") && is("no-appendfsync-on-rewrite", "no");
        let saves = told.setting("save").is_some_and(|save| !save.is_empty());
        let was_durable = told.votes() && told.of_record("durable") == Some("1");
        if appends && is_durable {
            return;
        }
        if was_durable && told.setting("appendonly").is_some() {
            let text = "no longer writes each lock to disk, and may vote after a crash without the last locks: undo the \
                 `CONFIG SET`, or write the setting into its file and restart it";
            self.error("persistence", text);
        } else if appends || saves {
            let text = "comes back from a restart without the last locks, and is quarantined like an empty server. \
                 Turn persistence off, or set `appendonly yes`, `appendfsync always` and \
                 `no-appendfsync-on-rewrite no`";
            self.warning("persistence", text);
        }
    }

    fn of_rights(&mut self, told: &Told, database: i64) {
        for ((rule, _, loss), error) in &told.lacks {
            match loss {
                None if *rule == "+select" && database == 0 => {}
                None => self.error("rights", format!("lacks {rule} ({error})")),
                Some(loss) => self.warning("rights", format!("lacks {rule}: {loss} ({error})")),
            }
        }
    }

    fn of_connection(&mut self, told: &Told) {
        if let Some(idle) = told.setting("timeout").filter(|it| *it != "0") {
            let text = format!(
                "closes connections that were idle for {idle} s, also those of processes that lock: set `timeout 0`"
            );
            self.warning("connections", text);
        }
        let round_trip = told.clocks.as_ref().map(|[first, _]| first.round_trip);
        if let Some(long) = round_trip.filter(|it| *it > LONG_ROUND_TRIP) {
            let text = format!(
                "takes {long:.1?} to reply: each lock takes as long as the slowest of a majority"
            );
            self.warning("latency", text);
        }
    }

    fn of_vote(&mut self, told: &Told) {
        if let Some(text) = told.other_format() {
            self.error("format", text);
        }
        let vote = told.vote();
        if vote.name == "quarantined" || vote.name == "restarted" {
            self.warning("vote", vote.text);
        }
    }
}

/// All of them, with this between two, if they are not all equal.
fn differing(texts: impl Iterator<Item = impl Into<String>>, between: &str) -> Option<String> {
    let texts: BTreeSet<String> = texts.map(Into::into).collect();
    let differ = texts.len() > 1;
    differ.then(|| Vec::from_iter(texts).join(between))
}
