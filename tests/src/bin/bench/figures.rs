//! Figures of one round, and what several rounds come to.

use std::{collections::BTreeMap, error::Error, time::Duration};

use serde_json::{Value, json};

use crate::{subject::Subject, workload::Workload};

/// The figures of one subject in one round, by name.
pub(crate) struct Figures(BTreeMap<&'static str, f64>);

/// All rounds of a subject under a workload.
pub(crate) struct Result {
    pub(crate) subject: Subject,
    pub(crate) workload: Workload,
    pub(crate) nodes: usize,
    pub(crate) rounds: Vec<Figures>,
    /// Of the machine, after the last round.
    pub(crate) load: String,
}

impl Figures {
    /// Adds up the reports of all processes.
    pub(crate) fn of(
        reports: &[Value],
        node_cpu_us: f64,
        window: Duration,
    ) -> std::result::Result<Self, Box<dyn Error>> {
        let numbers = |field: &str| -> Vec<f64> {
            let mut numbers: Vec<f64> = reports
                .iter()
                .filter_map(|report| report[field].as_array())
                .flatten()
                .filter_map(Value::as_f64)
                .collect();
            numbers.sort_by(f64::total_cmp);
            numbers
        };
        let sum = |field: &str| -> f64 {
            let each = reports.iter().filter_map(|report| report[field].as_f64());
            each.sum()
        };
        let done = numbers("done");
        if done.is_empty() {
            return Err("a worker has reported nothing".into());
        }
        let waits: Vec<f64> = numbers("waits")
            .iter()
            .map(|tenths| tenths / 10.0)
            .collect();
        let all: f64 = done.iter().sum();
        let per_worker = all / done.len() as f64;
        let at_least_one = |count: f64| count.max(1.0);
        Ok(Self(BTreeMap::from([
            ("cycles_per_s", all / window.as_secs_f64()),
            ("wait_p50_us", quantile(&waits, 0.5)),
            ("wait_p99_us", quantile(&waits, 0.99)),
            (
                "wait_mean_us",
                waits.iter().sum::<f64>() / at_least_one(waits.len() as f64),
            ),
            ("sections_min", quantile(&done, 0.0)),
            ("sections_max", quantile(&done, 1.0)),
            ("least_by_mean", quantile(&done, 0.0) / per_worker),
            ("most_by_mean", quantile(&done, 1.0) / per_worker),
            ("held_us", sum("held_us") / at_least_one(sum("sections"))),
            ("overlaps", sum("overlaps")),
            ("errors", sum("errors")),
            ("cpu_us_per_cycle", sum("cpu_us") / at_least_one(all)),
            ("node_cpu_us_per_cycle", node_cpu_us / at_least_one(all)),
        ])))
    }

    /// Those of the workload with many leases.
    pub(crate) fn of_leases(report: &Value) -> Self {
        const NAMES: [&str; 6] = [
            "leases",
            "acquire_us_each",
            "held_bytes_each",
            "errors",
            "renewal_cpu_share",
            "waiting_bytes_each",
        ];
        let figure = |name| (name, report[name].as_f64().unwrap_or(f64::NAN));
        Self(NAMES.map(figure).into())
    }

    pub(crate) fn get(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(f64::NAN)
    }
}

impl Result {
    pub(crate) const fn new(subject: Subject, workload: Workload, nodes: usize) -> Self {
        Self {
            subject,
            workload,
            nodes,
            rounds: Vec::new(),
            load: String::new(),
        }
    }

    /// The median of the rounds, but of what went wrong all.
    pub(crate) fn get(&self, name: &str) -> f64 {
        let rounds = self.rounds.iter().map(|round| round.get(name));
        match name {
            "overlaps" | "errors" => rounds.sum(),
            _ => median(rounds.collect()),
        }
    }

    /// The median of `figure` over the rounds of both.
    pub(crate) fn with(&self, other: &Self, figure: impl Fn(&Figures, &Figures) -> f64) -> f64 {
        let rounds = self.rounds.iter().zip(&other.rounds);
        median(rounds.map(|(one, other)| figure(one, other)).collect())
    }

    pub(crate) fn json(&self) -> Value {
        let mut line = json!({
            "workload": self.workload.name(),
            "subject": self.subject.name(),
            "nodes": self.nodes,
            "rounds": self.rounds.len(),
            "load": self.load,
        });
        if let (Value::Object(line), Some(round)) = (&mut line, self.rounds.first()) {
            line.extend(round.0.keys().map(|name| {
                let value = self.get(name);
                ((*name).to_owned(), json!((value * 1e3).round() / 1e3))
            }));
        }
        line
    }
}

/// The middle one, also of an even number.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted
        .get((last as f64 * share).round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}
