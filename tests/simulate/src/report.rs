//! What all histories came to.

use std::{fmt::Write, time::Duration};

use crate::{
    Settings,
    checker::{Invariant, Violation},
    faults::Harm,
    plan::Profile,
    tally::Tally,
    world::History,
};

/// How many violations are told in full.
const TOLD: usize = 10;

#[derive(Debug, Default)]
pub(crate) struct Report {
    histories: u64,
    pub(crate) replayed: u64,
    tally: Tally,
    violations: [u64; Invariant::ALL.len()],
    /// The first violation of each history that has one that must not be; in order.
    told: Vec<Told>,
}

#[derive(Debug)]
struct Told {
    index: u64,
    seed: u64,
    violation: Violation,
}

impl Report {
    /// True if an invariant was violated that must hold.
    pub(crate) fn on_history(
        &mut self,
        index: u64,
        seed: u64,
        profile: Profile,
        history: History,
    ) -> bool {
        self.histories += 1;
        self.tally.add(&history.tally);
        let overlaps = |one: &Violation| one.invariant == Invariant::Exclusion;
        self.tally.overlapping_histories += u64::from(history.violations.iter().any(overlaps));
        for violation in &history.violations {
            self.violations[violation.invariant as usize] += 1;
        }
        let mut required = history.violations.into_iter();
        let Some(violation) = required.find(|one| one.invariant.is_required(profile)) else {
            return false;
        };
        self.told.push(Told {
            index,
            seed,
            violation,
        });
        true
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.histories += other.histories;
        self.replayed += other.replayed;
        self.tally.add(&other.tally);
        for (sum, count) in self.violations.iter_mut().zip(other.violations) {
            *sum += count;
        }
        self.told.extend(other.told);
        self.told.sort_by_key(|told| told.index);
    }

    pub(crate) fn is_bad(&self, profile: Profile) -> bool {
        let mut counts = Invariant::ALL.iter().zip(self.violations);
        counts.any(|(invariant, count)| count > 0 && invariant.is_required(profile))
    }

    pub(crate) fn text(&self, settings: &Settings, took: Duration) -> String {
        let mut text = String::new();
        for told in self.told.iter().take(TOLD) {
            let Violation {
                invariant,
                at,
                what,
            } = &told.violation;
            let _ = writeln!(
                text,
                "{} at {} ms of history {}: {what}\n    --histories 1 --verbose --seed {}{}",
                invariant.name(),
                *at as f64 / 1e6,
                told.index,
                told.seed,
                settings.replay_arguments()
            );
        }
        if self.told.len() > TOLD {
            let _ = writeln!(text, "and {} histories more", self.told.len() - TOLD);
        }
        let _ = writeln!(text, "{}", self.json(settings, took));
        text
    }

    fn json(&self, settings: &Settings, took: Duration) -> String {
        let faults = Harm::NAMES.iter().zip(self.tally.faults);
        let faults: Vec<_> = faults
            .map(|(name, count)| format!("\"{name}\":{count}"))
            .collect();
        let violations = Invariant::ALL.iter().zip(self.violations);
        let violations: Vec<_> = violations
            .map(|(invariant, count)| format!("\"{}\":{count}", invariant.name()))
            .collect();
        let first = self.told.first().map_or_else(
            || "null".to_owned(),
            |told| {
                format!(
                    "{{\"history\":{},\"seed\":{},\"invariant\":\"{}\"}}",
                    told.index,
                    told.seed,
                    told.violation.invariant.name()
                )
            },
        );
        let seconds = took.as_secs_f64();
        format!(
            "{{\"profile\":\"{}\",\"seed\":{},\"nodes\":\"{}\",\"histories\":{},\"replayed\":{},\
             \"acquisitions\":{},\"overlapping_histories\":{},\"excused_tokens\":{},\
             \"excused_histories\":{},\"reseeds\":{{\"full\":{},\"short\":{}}},\
             \"fenced_store\":{{\"accepted\":{},\"rejected\":{}}},\"words\":{},\"faults\":{{{}}},\"violations\":{{{}}},\"first\":{first},\
             \"seconds\":{seconds:.1},\"histories_per_second\":{:.0}}}",
            settings.profile.name(),
            settings.seed,
            settings
                .nodes
                .map_or_else(|| "all".to_owned(), |nodes| nodes.to_string()),
            self.histories,
            self.replayed,
            self.tally.acquisitions,
            self.tally.overlapping_histories,
            self.tally.excused,
            self.tally.excused_histories,
            self.tally.reseeds[0],
            self.tally.reseeds[1],
            self.tally.fenced[0],
            self.tally.fenced[1],
            self.tally.words,
            faults.join(","),
            violations.join(","),
            self.histories as f64 / seconds
        )
    }
}

impl Settings {
    fn replay_arguments(&self) -> String {
        let nodes = self.nodes.map(|nodes| format!(" --nodes {nodes}"));
        let profile = self.profile.name();
        format!(" --profile {profile}{}", nodes.unwrap_or_default())
    }
}

impl Profile {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Inside => "inside",
            Self::Outside => "outside",
        }
    }
}
