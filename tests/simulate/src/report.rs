//! What all histories came to.

use std::{
    fmt::{Display, Write},
    time::Duration,
};

use crate::{
    Settings,
    checker::{Rule, Violation},
    draws::Draw,
    faults::Fault,
    scenario::Scenario,
    tally::{self, Tally},
    world::History,
};

#[derive(Debug, Default)]
pub(crate) struct Report {
    histories: u64,
    pub(crate) replayed: u64,
    tally: Tally,
    violations: [u64; Rule::ALL.len()],
    /// The first violation of each history that has one that must not be; in order.
    told: Vec<Told>,
}

#[derive(Debug)]
struct Told {
    index: u64,
    seed: u64,
    violation: Violation,
    /// What the history was like.
    summary: String,
}

impl Report {
    /// True if a rule was broken that must hold.
    pub(crate) fn on_history(
        &mut self,
        index: u64,
        seed: u64,
        settings: &Settings,
        history: History,
    ) -> bool {
        self.histories += 1;
        self.tally.add(&history.tally);
        let overlaps = |one: &Violation| one.rule == Rule::Exclusion;
        self.tally.overlapping_histories += u64::from(history.violations.iter().any(overlaps));
        for violation in &history.violations {
            self.violations[violation.rule as usize] += 1;
        }
        let mut required = history.violations.into_iter();
        let Some(violation) = required.find(|one| settings.requires(one.rule)) else {
            return false;
        };
        self.told.push(Told {
            index,
            seed,
            violation,
            summary: history.summary,
        });
        true
    }

    /// A history goes on for ever.
    pub(crate) fn on_endless(&mut self, index: u64, seed: u64) {
        self.histories += 1;
        self.violations[Rule::Rest as usize] += 1;
        self.told.push(Told {
            index,
            seed,
            violation: Violation::of_all(Rule::Rest, "one event is handled for ever"),
            summary: String::new(),
        });
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.histories += other.histories;
        self.replayed += other.replayed;
        self.tally.add(&other.tally);
        tally::add(&mut self.violations, &other.violations);
        self.told.extend(other.told);
        self.told.sort_by_key(|told| told.index);
    }

    pub(crate) fn is_bad(&self, settings: &Settings) -> bool {
        let mut counts = Rule::ALL.iter().zip(self.violations);
        counts.any(|(rule, count)| count > 0 && settings.requires(*rule))
    }

    pub(crate) fn text(&self, settings: &Settings, took: Duration) -> String {
        let mut text = String::new();
        for told in self.told.iter().take(settings.told) {
            let Violation { rule, at, what } = &told.violation;
            let _ = writeln!(
                text,
                "{} at {} ms of history {}: {what}\n    {}\n    --histories 1 --verbose --seed {}{}",
                rule.name(),
                *at as f64 / 1e6,
                told.index,
                told.summary,
                told.seed,
                settings.replay_arguments()
            );
        }
        let more = self.told.len().saturating_sub(settings.told);
        if more > 0 {
            let _ = writeln!(text, "and {more} histories more");
        }
        let _ = writeln!(text, "{}", self.json(settings, took));
        text
    }

    fn json(&self, settings: &Settings, took: Duration) -> String {
        let tally = &self.tally;
        let mut json = Object::default();
        json.text("profile", settings.wanted.profile.name());
        json.value("seed", settings.seed);
        let nodes = settings.wanted.nodes.map(|nodes| nodes.to_string());
        json.text("nodes", nodes.as_deref().unwrap_or("all"));
        let scenario = settings.wanted.scenario.map(Scenario::name);
        json.text("scenario", scenario.unwrap_or("all"));
        json.value("histories", self.histories);
        json.value("replayed", self.replayed);
        json.value("acquisitions", tally.acquisitions);
        json.value("foreign_acquisitions", tally.foreign);
        json.value("requests", tally.requests);
        json.value("words", tally.words);
        json.value("overlapping_histories", tally.overlapping_histories);
        json.value("excused_tokens", tally.excused);
        json.value("excused_histories", tally.excused_histories);
        json.counts("reseeds", ["full", "short"], tally.reseeds);
        json.value("storms", tally.storms);
        json.value("longest_gap_ms", tally.longest_gap as f64 / 1e6);
        let scenarios = Scenario::ALL.map(Scenario::name);
        json.counts("scenarios", scenarios, tally.scenarios);
        json.counts("draws", tally.draws.keys(), tally.draws.values());
        json.counts("faults", Fault::ALL.map(Fault::name), tally.faults);
        json.counts("violations", Rule::ALL.map(Rule::name), self.violations);
        json.value("first", self.first());
        let seconds = took.as_secs_f64();
        json.value("seconds", format_args!("{seconds:.1}"));
        let speed = self.histories as f64 / seconds;
        json.value("histories_per_second", format_args!("{speed:.0}"));
        json.end()
    }

    fn first(&self) -> String {
        let Some(told) = self.told.first() else {
            return "null".to_owned();
        };
        let mut json = Object::default();
        json.value("history", told.index);
        json.value("seed", told.seed);
        json.text("rule", told.violation.rule.name());
        json.end()
    }
}

/// A JSON object, whose texts need no escapes.
#[derive(Default)]
struct Object(String);

impl Object {
    fn value(&mut self, name: &str, value: impl Display) {
        let comma = if self.0.is_empty() { "" } else { "," };
        let _ = write!(self.0, "{comma}\"{name}\":{value}");
    }

    fn text(&mut self, name: &str, text: &str) {
        self.value(name, format_args!("\"{text}\""));
    }

    fn counts<N: AsRef<str>, C: Display>(
        &mut self,
        name: &str,
        names: impl IntoIterator<Item = N>,
        counts: impl IntoIterator<Item = C>,
    ) {
        let mut inner = Self::default();
        for (name, count) in names.into_iter().zip(counts) {
            inner.value(name.as_ref(), count);
        }
        self.value(name, inner.end());
    }

    fn end(self) -> String {
        format!("{{{}}}", self.0)
    }
}

impl Settings {
    fn requires(&self, rule: Rule) -> bool {
        let is_meant = self.rules.is_empty() || self.rules.contains(&rule);
        is_meant && rule.is_required(self.wanted.profile)
    }

    fn replay_arguments(&self) -> String {
        let wanted = &self.wanted;
        let mut arguments = format!(" --profile {}", wanted.profile.name());
        if let Some(nodes) = wanted.nodes {
            let _ = write!(arguments, " --nodes {nodes}");
        }
        if let Some(scenario) = wanted.scenario {
            let _ = write!(arguments, " --scenario {}", scenario.name());
        }
        for draw in Draw::ALL.iter().filter(|draw| wanted.draws.has(**draw)) {
            let _ = write!(arguments, " --draw {}", draw.name());
        }
        arguments
    }
}
