//! What is asked of the lock.

use serde_json::{Value, json};

use crate::{
    figures::{Figures, Result, median},
    subject::Subject,
    workload::{NODES, Workload},
};

use Bound::{AtLeast, AtMost};

/// A figure and its bound.
pub(crate) struct Target {
    pub(crate) workload: Workload,
    pub(crate) nodes: usize,
    pub(crate) subject: Subject,
    what: String,
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
            AtMost(bound) => self.value <= bound,
            AtLeast(bound) => self.value >= bound,
        }
    }

    pub(crate) fn json(&self) -> Value {
        let (AtMost(bound) | AtLeast(bound)) = self.bound;
        json!({
            "target": self.what,
            "workload": self.workload.name(),
            "nodes": self.nodes,
            "subject": self.subject.name(),
            "value": (self.value * 1e3).round() / 1e3,
            "bound": bound,
            "kind": if matches!(self.bound, AtMost(_)) { "at most" } else { "at least" },
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
        if ours.subject.is_plain() {
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
            Workload::FreePaced => self.paced(ours),
            Workload::FreePersistent => {}
            Workload::FreeOneDead | Workload::FreeOneSilent => self.spoilt(ours),
            Workload::FreeDelayed => self.delayed(ours),
            Workload::Many => self.many(ours),
            Workload::OneKey => self.one_key(ours),
            Workload::Processes | Workload::ManyProcesses => self.processes(ours),
            Workload::Leases => self.leases(ours),
        }
    }

    fn free(&mut self, ours: &Result) {
        let of = (Subject::Floor, Workload::Free);
        self.than(ours, of, "p50", AtMost(1.25), ratio("wait_p50_us"));
        self.cpu_of_nodes(ours, 0.8);
        // One part in 2.5, and in 1.5.
        let cpu = if ours.subject.is_closure() {
            0.4
        } else {
            0.667
        };
        let of = (Subject::Rslock, Workload::Free);
        self.than(ours, of, "CPU", AtMost(cpu), ratio("cpu_us_per_cycle"));
        self.than(ours, of, "cycles", AtLeast(1.1), ratio("cycles_per_s"));
    }

    fn paced(&mut self, ours: &Result) {
        let of = (Subject::Rslock, Workload::FreePaced);
        self.than(ours, of, "p50", AtMost(1.15), ratio("wait_p50_us"));
    }

    fn spoilt(&mut self, ours: &Result) {
        let healthy = (ours.subject, Workload::Free);
        self.than(ours, healthy, "p50", AtMost(1.05), ratio("wait_p50_us"));
    }

    /// One round trip is all that a slow network may add. How long one takes, which is more than the
    /// delays add up to, is known by plain commands.
    fn delayed(&mut self, ours: &Result) {
        let find = |way, workload| self.find(ours, way, workload);
        let near = find(ours.subject, Workload::Free);
        let plain = find(Subject::Floor, Workload::FreeDelayed);
        let plain_near = find(Subject::Floor, Workload::Free);
        let (Some(near), Some(plain), Some(plain_near)) = (near, plain, plain_near) else {
            return;
        };
        let of_round = |round: usize| {
            let p50 = |of: &Result| of.rounds[round].get("wait_p50_us");
            p50(ours) / (p50(near) + p50(plain) - p50(plain_near))
        };
        let value = median((0..ours.rounds.len()).map(of_round).collect());
        self.add(
            ours,
            "p50 / (one round trip + p50 near by)",
            AtMost(1.03),
            value,
        );
    }

    fn many(&mut self, ours: &Result) {
        let cycles = || ratio("cycles_per_s");
        let of = |way| (way, Workload::Many);
        self.than(ours, of(Subject::Floor), "cycles", AtLeast(0.9), cycles());
        self.cpu_of_nodes(ours, 1.4);
        self.than(ours, of(Subject::Rslock), "cycles", AtLeast(1.7), cycles());
    }

    fn one_key(&mut self, ours: &Result) {
        let times = match ours.subject.is_closure() {
            true => 8.0,
            false => 5.0,
        };
        let of = (Subject::Rslock, Workload::OneKey);
        self.than(ours, of, "cycles", AtLeast(times), ratio("cycles_per_s"));
        self.shares(ours, 0.95, 1.05);
        let most = if ours.subject.is_closure() { 2.5 } else { 2.0 };
        self.add(ours, "p99 / mean wait", AtMost(most), ours.with(ours, tail));
    }

    fn processes(&mut self, ours: &Result) {
        // Nobody can do better than to hold and then to ask once. How long the machine holds when
        // told to hold for a millisecond is not the lock's affair.
        if let Some(floor) = self.find(ours, Subject::Floor, Workload::Free) {
            let ideal = ours.with(floor, |ours, floor| {
                ours.get("cycles_per_s") * (ours.get("held_us") + floor.get("wait_p50_us")) / 1e6
            });
            self.add(ours, "cycles / ideal", AtLeast(0.92), ideal);
        }
        self.shares(ours, 0.5, 2.0);
        self.add(ours, "p99 / mean wait", AtMost(4.0), ours.with(ours, tail));
    }

    fn leases(&mut self, ours: &Result) {
        let get = |name| ours.get(name);
        let share = get("renewal_cpu_share");
        self.add(ours, "share of one core for renewals", AtMost(0.15), share);
        let held = get("held_bytes_each");
        self.add(ours, "bytes for one that is held", AtMost(1_024.0), held);
        let waiting = get("waiting_bytes_each");
        self.add(ours, "bytes for one that waits", AtMost(512.0), waiting);
    }

    /// Between which parts of the mean each worker must be.
    fn shares(&mut self, ours: &Result, least: f64, most: f64) {
        let get = |name| ours.get(name);
        self.add(ours, "least / mean", AtLeast(least), get("least_by_mean"));
        self.add(ours, "most / mean", AtMost(most), get("most_by_mean"));
    }

    fn cpu_of_nodes(&mut self, ours: &Result, most: f64) {
        let of = (Subject::Floor, ours.workload);
        let cpu = ratio("node_cpu_us_per_cycle");
        self.than(ours, of, "CPU of servers", AtMost(most), cpu);
    }

    /// Another way on as many nodes.
    fn find(&self, ours: &Result, way: Subject, workload: Workload) -> Option<&'a Result> {
        let is_it = |other: &&Result| {
            (other.subject, other.workload, other.nodes) == (way, workload, ours.nodes)
        };
        self.results.iter().find(is_it)
    }

    /// Compares within each round.
    fn than(
        &mut self,
        ours: &Result,
        (way, workload): (Subject, Workload),
        what: &str,
        bound: Bound,
        value: impl Fn(&Figures, &Figures) -> f64,
    ) {
        // How much another library can do with fewer nodes says nothing about five.
        if way == Subject::Rslock && ours.nodes != NODES {
            return;
        }
        if let Some(other) = self.find(ours, way, workload) {
            let name = if workload == ours.workload {
                way.name()
            } else {
                workload.name()
            };
            self.add(
                ours,
                &format!("{what} / {name}"),
                bound,
                ours.with(other, value),
            );
        }
    }

    fn add(&mut self, ours: &Result, what: &str, bound: Bound, value: f64) {
        let (workload, nodes) = (ours.workload, ours.nodes);
        self.targets.push(Target {
            workload,
            nodes,
            subject: ours.subject,
            what: what.to_owned(),
            value,
            bound,
        });
    }
}

fn ratio(name: &str) -> impl Fn(&Figures, &Figures) -> f64 {
    move |ours, other| ours.get(name) / other.get(name)
}

fn tail(ours: &Figures, _: &Figures) -> f64 {
    ours.get("wait_p99_us") / ours.get("wait_mean_us")
}
