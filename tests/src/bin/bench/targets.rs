//! What is asked of the lock, with five nodes.

use serde_json::{Value, json};

use crate::{
    figures::{Figures, Result},
    subject::{Subject, Way},
    workload::Workload,
};

const NODES: usize = 5;

/// A ratio and its bound.
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) bound: Bound,
}

#[derive(Clone, Copy)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Target {
    pub(crate) fn is_met(&self) -> bool {
        match self.bound {
            Bound::AtMost(bound) => self.value <= bound,
            Bound::AtLeast(bound) => self.value >= bound,
        }
    }

    pub(crate) fn json(&self) -> Value {
        let (Bound::AtMost(bound) | Bound::AtLeast(bound)) = self.bound;
        json!({
            "target": self.name,
            "value": (self.value * 1e3).round() / 1e3,
            "bound": bound,
            "kind": if matches!(self.bound, Bound::AtMost(_)) { "at most" } else { "at least" },
            "met": self.is_met(),
        })
    }
}

/// All targets for which everything has been measured.
pub(crate) fn check(results: &[Result]) -> Vec<Target> {
    let mut checks = Checks {
        results,
        targets: Vec::new(),
    };
    for ours in results {
        if ours.subject.way.is_ours() && ours.nodes == NODES {
            checks.check(ours);
        }
    }
    checks.targets
}

struct Checks<'a> {
    results: &'a [Result],
    targets: Vec<Target>,
}

impl<'a> Checks<'a> {
    fn check(&mut self, ours: &Result) {
        match ours.workload {
            Workload::Free => self.free(ours),
            Workload::FreeOneDead | Workload::FreeOneSilent => self.spoilt(ours),
            Workload::Many => self.than_rslock(ours, 2.5),
            Workload::OneKey => self.one_key(ours),
            Workload::Processes | Workload::ManyProcesses => self.processes(ours),
        }
    }

    fn free(&mut self, ours: &Result) {
        let (wait, cycles) = match ours.subject.way.is_in_runtime() {
            true => (1.10, 1.25),
            false => (1.35, 1.0),
        };
        let floor = self.other(ours, Way::Floor, Workload::Free);
        let p50 = ratio("wait_p50_us");
        self.add(ours, floor, "p50 / floor", Bound::AtMost(wait), p50);
        self.than_rslock(ours, cycles);
    }

    fn spoilt(&mut self, ours: &Result) {
        let healthy = self.other(ours, ours.subject.way, Workload::Free);
        let p50 = ratio("wait_p50_us");
        self.add(ours, healthy, "p50 / healthy p50", Bound::AtMost(1.05), p50);
    }

    fn one_key(&mut self, ours: &Result) {
        self.than_rslock(ours, 2.5);
        let itself = Some(ours);
        self.add(
            ours,
            itself,
            "least / mean",
            Bound::AtLeast(0.95),
            one("least_by_mean"),
        );
        self.add(
            ours,
            itself,
            "most / mean",
            Bound::AtMost(1.05),
            one("most_by_mean"),
        );
        self.add(ours, itself, "p99 / mean wait", Bound::AtMost(2.0), tail);
    }

    fn processes(&mut self, ours: &Result) {
        // Nobody can do better than to hold and then to ask once. How long the machine holds when
        // told to hold for a millisecond is not the lock's affair.
        let floor = self.other(ours, Way::Floor, Workload::Free);
        let ideal = |ours: &Figures, floor: &Figures| {
            ours.get("cycles_per_s") * (ours.get("held_us") + floor.get("wait_p50_us")) / 1e6
        };
        self.add(ours, floor, "cycles / ideal", Bound::AtLeast(0.92), ideal);
        let itself = Some(ours);
        self.add(
            ours,
            itself,
            "least / mean",
            Bound::AtLeast(0.5),
            one("least_by_mean"),
        );
        self.add(
            ours,
            itself,
            "most / mean",
            Bound::AtMost(2.0),
            one("most_by_mean"),
        );
        self.add(ours, itself, "p99 / mean wait", Bound::AtMost(4.0), tail);
    }

    fn than_rslock(&mut self, ours: &Result, bound: f64) {
        let rslock = self.other(ours, Way::Rslock, ours.workload);
        let cycles = ratio("cycles_per_s");
        self.add(
            ours,
            rslock,
            "cycles / rslock",
            Bound::AtLeast(bound),
            cycles,
        );
    }

    /// `way` in the same kind of runtime.
    fn other(&self, ours: &Result, way: Way, workload: Workload) -> Option<&'a Result> {
        let subject = Subject::new(way, ours.subject.runtime);
        find(self.results, subject, workload, NODES)
    }

    fn add(
        &mut self,
        ours: &Result,
        other: Option<&Result>,
        what: &str,
        bound: Bound,
        value: impl Fn(&Figures, &Figures) -> f64,
    ) {
        let Some(other) = other else { return };
        self.targets.push(Target {
            name: format!("{} {}, {what}", ours.workload.name(), ours.subject),
            value: ours.with(other, value),
            bound,
        });
    }
}

pub(crate) fn find(
    results: &[Result],
    subject: Subject,
    workload: Workload,
    nodes: usize,
) -> Option<&Result> {
    results.iter().find(|result| {
        (result.subject, result.workload, result.nodes) == (subject, workload, nodes)
    })
}

fn ratio(name: &str) -> impl Fn(&Figures, &Figures) -> f64 {
    move |ours, other| ours.get(name) / other.get(name)
}

fn one(name: &str) -> impl Fn(&Figures, &Figures) -> f64 {
    move |ours, _| ours.get(name)
}

fn tail(ours: &Figures, _: &Figures) -> f64 {
    ours.get("wait_p99_us") / ours.get("wait_mean_us")
}
