//! The figures for people.

use crate::{
    figures::Result,
    subject::{Subject, Way},
    targets::{Bound, Target, find},
    workload::Workload,
};

/// Columns that a heading has no room for: `cycle` is the median of a whole cycle, in
/// microseconds; `per worker` the least, mean and most sections; `handed` the sections after one of
/// another process; `cpu` the client's microseconds for each cycle and `nodes` those of all servers; `peak` the memory of its largest
/// process; `stall` how late a thread that only sleeps has woken at worst; `over` how often two held one lock.
pub(crate) fn of(results: &[Result], targets: &[Target]) -> String {
    let mut lines = Vec::new();
    let mut of = None;
    for result in results {
        if of != Some((result.nodes, result.workload)) {
            of = Some((result.nodes, result.workload));
            lines.push(title(result));
            lines.extend((result.workload != Workload::Leases).then(columns));
        }
        lines.push(match result.workload {
            Workload::Leases => row_of_leases(result),
            _ => row(results, result),
        });
    }
    if !targets.is_empty() {
        lines.push("\nTargets; ratios within a round, medians".to_owned());
        lines.extend(targets.iter().map(line));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn title(result: &Result) -> String {
    let nodes = result.nodes;
    let name = result.workload.name();
    let description = result.workload.description();
    let rounds = result.rounds.len();
    let load = &result.load;
    format!("\n{name} on {nodes} nodes: {description}; medians of {rounds} rounds; load {load}")
}

fn columns() -> String {
    format!(
        "{:52} wait, microseconds\n{:19} {:>8} {:>7} {:>7} {:>8} {:>8} {:>8} {:>8} {:>8} {:>18} {:>6} {:>6} {:>6} {:>6} {:>8} {:>4} {:>4}",
        "",
        "",
        "cycles/s",
        "x floor",
        "x rsl.",
        "p50",
        "p99",
        "max",
        "mean",
        "cycle",
        "per worker",
        "handed",
        "cpu",
        "nodes",
        "peak",
        "stall",
        "err",
        "over"
    )
}

fn row_of_leases(result: &Result) -> String {
    let get = |name| result.get(name);
    format!(
        "{:19} {} locks: {:.0} us to acquire, {:.0} bytes held, {:.1} % of a core for renewals, \
         {:.0} bytes waiting, {:.0} lost",
        result.subject,
        get("leases"),
        get("acquire_us_each"),
        get("held_bytes_each"),
        get("renewal_cpu_share") * 100.0,
        get("waiting_bytes_each"),
        get("errors"),
    )
}

fn row(results: &[Result], result: &Result) -> String {
    let beside = |way| {
        let subject = Subject::new(way, result.subject.runtime);
        let other = find(results, subject, result.workload, result.nodes)?;
        Some(result.with(other, |ours, other| {
            ours.get("cycles_per_s") / other.get("cycles_per_s")
        }))
    };
    let times = |ratio: Option<f64>| ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
    let get = |name| result.get(name);
    let sections = format!(
        "{:.0} / {:.0} / {:.0}",
        get("sections_min"),
        get("sections_mean"),
        get("sections_max")
    );
    format!(
        "{:19} {:8.0} {:>7} {:>7} {:8.0} {:8.0} {:8.0} {:8.0} {:8.0} {sections:>18} {:6.0} {:6.0} {:6.0} {:5.1}M {:8.0} {:4.0} {:4.0}",
        result.subject,
        get("cycles_per_s"),
        times(beside(Way::Floor)),
        times(beside(Way::Rslock)),
        get("wait_p50_us"),
        get("wait_p99_us"),
        get("wait_max_us"),
        get("wait_mean_us"),
        get("cycle_p50_us"),
        get("hand_overs"),
        get("cpu_us_per_cycle"),
        get("node_cpu_us_per_cycle"),
        get("peak_kb") / 1024.0,
        get("stall_us"),
        get("errors"),
        get("overlaps"),
    )
}

fn line(target: &Target) -> String {
    let (relation, bound) = match target.bound {
        Bound::AtMost(bound) => ("<=", bound),
        Bound::AtLeast(bound) => (">=", bound),
    };
    let verdict = if target.is_met() { "met" } else { "MISSED" };
    format!(
        "{:70} {:8.3} {relation} {bound:<5} {verdict}",
        target.name(),
        target.value
    )
}
