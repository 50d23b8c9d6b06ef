//! What the record proves: each promise that was broken, and figures.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::{
    client::{KINDS, PERIOD, PERMITS},
    plan::{CONNECT_TIMEOUT, LEASE, NODE_TIMEOUT, NODES, Pace, Target},
    record::{History, Mode, Section, Usage},
};

/// In microseconds, what a machine of two cores may take on top of each bound.
const SLACK: u64 = 1_500_000;

/// A lock that is held for longer is on all nodes that can be reached.
const YOUNG: u64 = 100_000;

/// A fault of a node must be in `health` if it lasts for longer.
const NOTICEABLE: u64 = 2 * CONNECT_TIMEOUT.as_micros() as u64 + 200_000;

/// No lock that callers wait for stays without a new holder for longer while a majority is well.
const STALL: u64 = 8_000_000;

/// By how much more than a quarter each figure of a [`Usage`] may grow. A node that has forgotten all has none of its
/// thousand counters at first.
const GROWTH: [u64; 5] = [8_000, 16, 8, 100, 1_100];

#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) rule: &'static str,
    pub(crate) from: u64,
    pub(crate) text: String,
}

pub(crate) const RULES: [&str; 11] = [
    "overlap",
    "token",
    "period",
    "late_return",
    "error",
    "stall",
    "recovery",
    "panic",
    "growth",
    "unnoticed",
    "left_behind",
];

/// A machine that is too slow breaks these without any fault of the library.
const OF_TIME: [&str; 4] = ["late_return", "error", "stall", "unnoticed"];

pub(crate) struct Judge<'a> {
    history: &'a History,
    is_overloaded: bool,
    /// For so many seconds a process that begins may grow: a server that has lost its locks has none at first.
    growing: usize,
    /// The calls for each key, in order.
    by_key: BTreeMap<&'a str, Vec<&'a Section>>,
    /// In microseconds by the clock of the record.
    phases: Vec<(u64, &'static str)>,
    pub(crate) violations: Vec<Violation>,
    /// What would be violations on a machine that is fast enough.
    excused: u64,
    figures: BTreeMap<&'static str, Value>,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(
        history: &'a mut History,
        phases: &[(u64, &'static str)],
        pace: &Pace,
    ) -> Self {
        let of_clients: Vec<_> = history.sections.iter().map(spans).collect();
        for fault in &mut history.faults {
            let meets = |span: &(usize, u64, u64)| {
                let is_his = match fault.target {
                    Target::Client(client) | Target::Link(client, _) => client == span.0,
                    Target::Node(_) => false,
                };
                is_his && span.1 <= fault.from && fault.from <= span.2
            };
            fault.is_effective = fault.met > 0 || of_clients.iter().any(meets);
        }
        let history: &History = history;
        let time = |millis: u64| history.begun + millis * 1_000;
        let mut by_key: BTreeMap<&str, Vec<&Section>> = BTreeMap::new();
        for section in &history.sections {
            for key in &section.keys {
                by_key.entry(key).or_default().push(section);
            }
        }
        Self {
            history,
            is_overloaded: pace.held > 0,
            growing: (pace.recovered() / 1_000) as usize,
            by_key,
            phases: phases.iter().map(|(at, name)| (time(*at), *name)).collect(),
            violations: Vec::new(),
            excused: 0,
            figures: BTreeMap::new(),
        }
    }

    pub(crate) fn judge(&mut self) {
        for key in self.by_key.keys().copied().collect::<Vec<&str>>() {
            let sections = self.of_key(key);
            self.overlaps(key, &sections);
            self.tokens(key, &sections);
            self.progress(key);
        }
        self.calls();
        self.waits();
        self.periods();
        self.processes();
        self.told();
    }

    pub(crate) fn accuse(
        &mut self,
        rule: &'static str,
        (from, until): (u64, u64),
        text: impl Into<String>,
    ) {
        let text = text.into();
        if OF_TIME.contains(&rule) && self.is_slow(from, until) {
            self.excused += 1;
            return;
        }
        self.violations.push(Violation { rule, from, text });
    }

    /// Those that got in, in that order.
    fn of_key(&self, key: &str) -> Vec<&'a Section> {
        let of_key = self.by_key.get(key).into_iter().flatten().copied();
        let mut sections: Vec<&Section> = of_key.filter(|it| it.entered.is_some()).collect();
        sections.sort_by_key(|section| section.entered);
        sections
    }

    /// Promise 2, for the times at which both are known to have trusted their locks.
    fn overlaps(&mut self, key: &str, sections: &[&Section]) {
        for (place, one) in sections.iter().enumerate() {
            let entered = |section: &Section| section.entered.unwrap_or(0);
            let during = sections[place + 1..]
                .iter()
                .take_while(|other| entered(other) < one.last);
            let mut inside = 1;
            for other in during {
                let is_allowed = match (one.mode, other.mode) {
                    (Mode::Shared, Mode::Shared) => true,
                    (Mode::Permit, Mode::Permit) => {
                        // Those that were inside at the latest entry are counted from the one that stays longest.
                        let at = entered(other);
                        let open = |it: &&&Section| entered(it) <= at && at < it.last;
                        inside = inside.max(sections.iter().filter(open).count());
                        inside <= PERMITS as usize
                    }
                    _ => false,
                };
                if !is_allowed {
                    let span = (entered(other), one.last.min(other.last));
                    let text = format!(
                        "{key}: clients {} and {} at the same time",
                        one.client, other.client
                    );
                    self.accuse("overlap", span, text);
                }
            }
        }
    }

    /// Promise 8.
    fn tokens(&mut self, key: &str, sections: &[&Section]) {
        let (mut all, mut written, mut read) = (BTreeSet::new(), 0, 0);
        for section in sections {
            let at = section.entered.unwrap_or(0);
            let floor = match section.mode {
                Mode::Permit => 0,
                Mode::Shared => written,
                Mode::Exclusive => written.max(read),
            };
            if section.token <= floor && section.mode != Mode::Permit || !all.insert(section.token)
            {
                let text = format!(
                    "{key}: client {} has {} after {floor}",
                    section.client, section.token
                );
                self.accuse("token", (at, section.last), text);
            }
            match section.mode {
                Mode::Exclusive => written = written.max(section.token),
                Mode::Shared => read = read.max(section.token),
                Mode::Permit => {}
            }
        }
    }

    /// Promise 7, and no error while a majority is well.
    fn calls(&mut self) {
        let mut outcomes: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
        for section in &self.history.sections {
            let Some(ended) = section.ended else { continue };
            let outcome = section.outcome.split(' ').next().unwrap_or("");
            let phase = self.phase(section.asked, ended);
            *outcomes
                .entry(phase)
                .or_default()
                .entry(outcome)
                .or_default() += 1;
            if self.is_disturbed(section.client, section.asked, ended) {
                continue;
            }
            let timeouts = match &*section.kind {
                "several" => 3,
                "permits" => u64::from(PERMITS),
                _ => 1,
            };
            let got = section.entered.unwrap_or(ended);
            let bound = section.wait + timeouts * NODE_TIMEOUT.as_micros() as u64;
            if got - section.asked > bound + SLACK {
                let text = format!(
                    "{}: client {} waited for {} ms",
                    section.kind,
                    section.client,
                    (got - section.asked) / 1_000
                );
                self.accuse("late_return", (section.asked, got), text);
            }
            let is_renewed = matches!(&*section.kind, "renewed" | "leader" | "held");
            let is_allowed = match outcome {
                "ok" | "killed" | "Contended" | "cancelled" | "panicked" | "dropped" => true,
                "Expired" => !is_renewed,
                // The machine cannot do in time what a soak asks of it.
                "NoQuorum" | "Quarantined" => self.is_overloaded,
                _ => false,
            };
            let is_told = section.told.is_some() && is_renewed;
            let is_young = (outcome == "Lost" || is_told) && self.is_forgotten_young(section);
            if phase != "majority" && (!is_allowed || is_told) && !is_young {
                let text = format!(
                    "{}: client {}: {} {}",
                    section.kind,
                    section.client,
                    if is_told { "lost its lock," } else { "" },
                    section.outcome
                );
                self.accuse("error", (section.asked, ended), text);
            }
        }
        self.figures.insert("outcomes", json!(outcomes));
    }

    /// How long callers waited that got the lock.
    fn waits(&mut self) {
        let mut waits: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
        for section in &self.history.sections {
            let Some(entered) = section.entered else {
                continue;
            };
            *kinds.entry(&section.kind).or_default() += 1;
            let phase = self.phase(section.asked, entered);
            if !self.is_disturbed(section.client, section.asked, entered) {
                waits
                    .entry(phase)
                    .or_default()
                    .push((entered - section.asked) / 1_000);
            }
        }
        let mut figures = BTreeMap::new();
        for (phase, waits) in &mut waits {
            waits.sort_unstable();
            let part = |hundredths: usize| waits[(waits.len() - 1) * hundredths / 100];
            figures.insert(
                *phase,
                json!({"p50": part(50), "p99": part(99), "max": part(100)}),
            );
        }
        self.figures.insert("waits_ms", json!(figures));
        let end = self.phases[self.phases.len() - 1].0;
        for kind in KINDS {
            let of_end = |it: &&Section| it.kind == kind && it.entered > Some(self.calm());
            if !self.history.sections.iter().any(|it| of_end(&it)) {
                let text = format!("{kind}: nobody gets the lock when all is well again");
                self.accuse("recovery", (self.calm(), end), text);
            }
        }
        self.figures.insert("sections", json!(kinds));
    }

    /// Somebody gets each lock that callers wait for.
    fn progress(&mut self, key: &str) {
        let of_key = self.by_key[key].clone();
        let mut changes: Vec<u64> = of_key
            .iter()
            .flat_map(|it| [it.entered, Some(it.last)])
            .flatten()
            .collect();
        changes.sort_unstable();
        for pair in changes.windows(2) {
            let span = (pair[0], pair[1]);
            // Nobody asks for those of a burst until the next one, and only one client for those that it holds.
            let is_rare = key.starts_with("burst:") || key.starts_with("held:");
            if is_rare || span.1 - span.0 < STALL || self.phase(span.0, span.1) == "majority" {
                continue;
            }
            let waits = |it: &&&Section| it.asked < span.0 + STALL / 2 && it.ended > Some(span.0);
            if of_key.iter().any(|it| waits(&it)) {
                self.accuse("stall", span, format!("{key}: nobody gets it"));
            }
        }
    }

    /// The lock that is kept is acquired no sooner after it was acquired before.
    fn periods(&mut self) {
        let lease = LEASE.as_micros() as u64;
        for pair in self.of_key("at_least").windows(2) {
            let [one, next] = pair else { continue };
            let [first, second] = [one, next].map(|it| it.entered.unwrap_or(0));
            let begun = first - lease.saturating_sub(one.remaining);
            if second < begun + PERIOD.as_micros() as u64 {
                let text = format!("acquired again after {} ms", (second - begun) / 1_000);
                self.accuse("period", (first, second), text);
            }
        }
    }

    fn processes(&mut self) {
        for (at, text) in &self.history.panics {
            self.accuse("panic", (*at, *at), text);
        }
        let mut longest: BTreeMap<&str, (usize, Value)> = BTreeMap::new();
        for ((process, _), usage) in &self.history.usage {
            let quarter = usage.len() / 4;
            // Servers are looked at every ten seconds.
            let seconds = quarter * if process.starts_with('n') { 10 } else { 1 };
            // In the first quarter of its life it grows to its size.
            if quarter == 0 || seconds < self.growing {
                continue;
            }
            let [before, after] = [1, 3].map(|begun| typical(&usage[begun * quarter..][..quarter]));
            let has_grown = |(place, allowed): (usize, &u64)| {
                after.get(place) > before.get(place).map(|it| it * 5 / 4 + allowed).as_ref()
            };
            if GROWTH.iter().enumerate().any(has_grown) {
                let text = format!("{process}: {before:?}, later {after:?}");
                self.accuse("growth", (self.history.begun, self.calm()), text);
            }
            let of_process = longest.entry(process).or_default();
            if of_process.0 < usage.len() {
                *of_process = (usage.len(), json!({"before": before, "after": after}));
            }
        }
        let figures: BTreeMap<_, _> = longest.into_iter().map(|(of, (_, it))| (of, it)).collect();
        self.figures.insert("usage_of_longest_life", json!(figures));
    }

    /// `health` names the node that is harmed, and in the end none.
    fn told(&mut self) {
        let mut states: BTreeMap<(usize, usize), &str> = BTreeMap::new();
        for (_, client, node, state) in &self.history.states {
            states.insert((*client, *node), state);
        }
        let end = self.phases[self.phases.len() - 1].0;
        for ((client, node), state) in states {
            if state != "Up" {
                let text = format!("client {client} says in the end that node {node} is {state}");
                self.accuse("recovery", (self.calm(), end), text);
            }
        }
        let (mut noticed, mut long) = (0, 0);
        for fault in &self.history.faults {
            let (Target::Node(node), true) = (fault.target, fault.until - fault.from > NOTICEABLE)
            else {
                continue;
            };
            if fault.kind == "scripts flushed" || !fault.is_effective {
                continue;
            }
            long += 1;
            let names = |(at, _, of, state): &(u64, usize, usize, String)| {
                *of == node && *at > fault.from && *at < fault.until + SLACK && state != "Up"
            };
            let was_named = self.history.states.iter().any(names);
            noticed += u64::from(was_named);
            if !was_named {
                let text = format!("no client says that node {node} is {}", fault.kind);
                self.accuse("unnoticed", (fault.from, fault.until), text);
            }
        }
        self.figures.insert(
            "named_by_health",
            json!({"long_faults": long, "named": noticed}),
        );
    }

    /// A lock stands on a bare majority at first. If one of these nodes forgets it before the others have it, it is
    /// lost.
    fn is_forgotten_young(&self, section: &Section) -> bool {
        let begun = section.entered.unwrap_or(section.asked);
        let forgets = |kind: &str| matches!(kind, "killed" | "flushed" | "replica");
        self.history.faults.iter().any(|fault| {
            forgets(&fault.kind) && section.asked < fault.from && fault.from < begun + YOUNG
        })
    }

    /// Whether some client was not scheduled around that time, although no fault had stopped it.
    fn is_slow(&self, from: u64, until: u64) -> bool {
        let around = NODE_TIMEOUT.as_micros() as u64;
        self.history.slow.iter().any(|&(client, begun, ended)| {
            let meets = begun <= until + around && from <= ended + around;
            meets && !self.is_disturbed(client, begun, ended)
        })
    }

    /// Whether this client was stopped or killed meanwhile. What it was about when it stopped ends up to a node
    /// timeout later.
    fn is_disturbed(&self, client: usize, from: u64, until: u64) -> bool {
        self.history.faults.iter().any(|fault| {
            fault.target == Target::Client(client)
                && fault.from <= until
                && from <= fault.until + NODE_TIMEOUT.as_micros() as u64
        })
    }

    /// The phase in which something lies; the harder one if it lies in two.
    fn phase(&self, from: u64, until: u64) -> &'static str {
        let at = |time: u64| {
            let begun = self.phases.iter().rev().find(|(begun, _)| *begun <= time);
            begun.map_or("minority", |(_, name)| *name)
        };
        match [at(from), at(until)] {
            ["majority", _] | [_, "majority"] => "majority",
            _ => "minority",
        }
    }

    fn calm(&self) -> u64 {
        self.phases[self.phases.len() - 2].0
    }

    /// The line of JSON.
    pub(crate) fn verdict(&mut self, seed: u64, seconds: u64, late: u64) -> Value {
        let mut faults: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
        for fault in &self.history.faults {
            let counts = faults.entry(&fault.kind).or_default();
            counts[0] += 1;
            counts[1] += u64::from(fault.is_effective);
        }
        let effective: u64 = faults.values().map(|counts| counts[1]).sum();
        let broken = |rule: &str| self.violations.iter().filter(|it| it.rule == rule).count();
        let violations: BTreeMap<&str, usize> =
            RULES.into_iter().map(|rule| (rule, broken(rule))).collect();
        let mut verdict = json!({
            "seed": seed, "seconds": seconds, "nodes": NODES, "late_ms": late,
            "excused_by_slow_machine": self.excused,
            "faults": faults, "effective_faults": effective,
            "calls": self.history.sections.len(), "violations": violations,
            "first": self.violations.first().map(|it| format!("{}: {}", it.rule, it.text)),
        });
        for (name, figure) in &self.figures {
            verdict[*name] = figure.clone();
        }
        verdict
    }
}

/// The median of each figure.
fn typical(usage: &[Usage]) -> Usage {
    let median = |place: usize| {
        let mut figures: Vec<u64> = usage.iter().map(|used| used[place]).collect();
        figures.sort_unstable();
        figures[figures.len() / 2]
    };
    (0..usage[0].len()).map(median).collect()
}

/// Whose it is, and from when to when something was on its way.
fn spans(section: &Section) -> (usize, u64, u64) {
    let end = section.ended.unwrap_or(section.last);
    (section.client, section.asked, end)
}
