//! The tables of a run, from its JSON lines: alone, or on a page between its markers.
//!
//! `<!-- run: figures -->` begins what [`Run::block`] makes of the name `figures`, and `<!-- end -->` ends it.

use std::{error::Error, fs, io};

use serde_json::Value;

use crate::{
    subject::Subject,
    workload::{NODES, Workload},
};

const END: &str = "<!-- end -->";

const TABLES: [&str; 6] = ["machine", "chart", "figures", "family", "leases", "targets"];

/// What a row tells of a workload.
enum Row {
    Count(&'static str),
    Micros(&'static str),
    /// The fewest and the most.
    Sections,
}

const WAYS: [(Subject, &str); 6] = [
    (Subject::Floor, "plain commands"),
    (Subject::Rslock, "rslock"),
    (Subject::Distkit, "distkit, one server"),
    (Subject::Postgres, "PostgreSQL, one server"),
    (Subject::Ours, "guards"),
    (Subject::OursClosure, "closures"),
];

const FAMILY: [(Subject, &str); 6] = [
    (Subject::TwoKeys, "two keys"),
    (Subject::AtLeast, "`at_least`"),
    (Subject::Permits, "`permits = 3`"),
    (Subject::Fair, "`fair`"),
    (Subject::Shared, "`shared`"),
    (Subject::Blocking, "blocking"),
];

/// With those bars.
const CHARTED: [Workload; 3] = [Workload::Processes, Workload::OneKey, Workload::Free];

const LONGEST_BAR: f64 = 50.0;

const RATE: (&str, Row) = ("cycles a second", Row::Count("cycles_per_s"));
const P50: (&str, Row) = ("median acquisition", Row::Micros("wait_p50_us"));

const FREE: [(&str, Row); 4] = [
    RATE,
    P50,
    (
        "the client's processor time for a cycle",
        Row::Micros("cpu_us_per_cycle"),
    ),
    (
        "the servers' processor time for a cycle",
        Row::Micros("node_cpu_us_per_cycle"),
    ),
];
/// On fewer nodes.
const SHORT: [(&str, Row); 2] = [RATE, P50];
const MEDIAN: [(&str, Row); 1] = [P50];
const CONTENDED: [(&str, Row); 3] = [
    RATE,
    ("99th percentile of the waits", Row::Micros("wait_p99_us")),
    ("sections of one worker", Row::Sections),
];

pub(crate) fn main(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let [page] = arguments else {
        return Err("usage: bench write <page.md> < results.json".into());
    };
    let lines = io::stdin().lines().collect::<Result<Vec<_>, _>>()?;
    let lines = lines.iter().map(|line| serde_json::from_str(line));
    let run = Run(lines.collect::<Result<_, _>>()?);
    fs::write(page, run.fill(&fs::read_to_string(page)?)?)?;
    Ok(())
}

/// The lines of a run.
pub(crate) struct Run(pub(crate) Vec<Value>);

impl Run {
    /// All tables.
    pub(crate) fn tables(&self) -> Result<String, Box<dyn Error>> {
        let tables = TABLES.map(|name| self.block(name));
        let tables = tables.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(tables.join("\n"))
    }

    /// `page` with the tables of this run.
    fn fill(&self, page: &str) -> Result<String, Box<dyn Error>> {
        let mut filled = String::new();
        let mut rest = page;
        while let Some((before, after)) = rest.split_once("<!-- run: ") {
            let (name, after) = after.split_once(" -->").ok_or("a marker is not closed")?;
            let (_, after) = after.split_once(END).ok_or("a marker has no end")?;
            let block = self.block(name)?;
            filled += &format!("{before}<!-- run: {name} -->\n{block}{END}");
            rest = after;
        }
        if filled.is_empty() {
            return Err("the page has no table to be written".into());
        }
        Ok(filled + rest)
    }

    fn block(&self, name: &str) -> Result<String, Box<dyn Error>> {
        Ok(match name {
            "machine" => self.machine()?,
            "chart" => self.chart(),
            "figures" => self.comparison(),
            "family" => self.family(),
            "leases" => self.leases(),
            "targets" => self.targets(),
            _ => return Err(format!("there is no table {name}").into()),
        })
    }

    fn machine(&self) -> Result<String, Box<dyn Error>> {
        let head = self.0.iter().find(|line| line["machine"].is_object());
        let head = head.ok_or("the run does not say on which machine")?;
        let machine = &head["machine"];
        let text = |name: &str| machine[name].as_str().unwrap_or("unknown").to_owned();
        let loads = self.figures().filter_map(|line| line["load"].as_str());
        let load = loads.filter_map(|load| load.split(' ').next()?.parse::<f64>().ok());
        Ok(format!(
            "{}, {} threads, {} GiB; Linux {}; Redis {}; {} rounds of {} s; load up to {:.1}\n",
            text("processor"),
            machine["threads"],
            machine["memory_gib"],
            text("kernel"),
            text("redis"),
            head["rounds"],
            head["seconds"],
            load.fold(0.0, f64::max),
        ))
    }

    /// Cycles a second, as bars.
    fn chart(&self) -> String {
        let mut chart = "```text\n".to_owned();
        for workload in CHARTED {
            let rate = |way| self.find(way, workload, NODES)?["cycles_per_s"].as_f64();
            let rates = WAYS.map(|(way, name)| (name, rate(way).unwrap_or(0.0)));
            let most = rates.iter().map(|(_, rate)| *rate).fold(1.0, f64::max);
            chart += &format!("{}\n", workload.description());
            for (name, rate) in rates {
                let bar = "█".repeat((LONGEST_BAR * rate / most).ceil() as usize);
                chart += &format!("  {name:<24} {bar} {}\n", grouped(rate));
            }
        }
        chart + "```\n"
    }

    fn comparison(&self) -> String {
        let mut table = header("five nodes, unless the row says fewer", &WAYS);
        for nodes in [NODES, 3, 1] {
            for workload in Workload::ALL {
                let rows: &[(&str, Row)] = match workload {
                    Workload::Leases => continue,
                    Workload::FreePersistent => &SHORT,
                    Workload::FreePaced
                    | Workload::FreeOneDead
                    | Workload::FreeOneSilent
                    | Workload::FreeDelayed => &MEDIAN,
                    _ if workload.is_contended() => &CONTENDED,
                    _ if nodes < NODES => &SHORT,
                    _ => &FREE,
                };
                self.rows(&mut table, workload, nodes, rows);
            }
        }
        table
    }

    /// The first of them names the workload. None, if that was not measured.
    fn rows(&self, table: &mut String, workload: Workload, nodes: usize, rows: &[(&str, Row)]) {
        let find = |way| self.find(way, workload, nodes);
        let lines = WAYS.map(|(way, _)| find(way));
        if lines.iter().all(Option::is_none) {
            return;
        }
        let on = match nodes {
            NODES => String::new(),
            1 => "one node, ".to_owned(),
            _ => format!("{nodes} nodes, "),
        };
        let mut of = format!("{on}{}: ", workload.description());
        for (name, row) in rows {
            *table += &format!("| {}{name} |", std::mem::take(&mut of));
            for line in lines {
                let cell = line.and_then(|line| row.of(line));
                *table += &format!(" {} |", cell.as_deref().unwrap_or("–"));
            }
            *table += "\n";
        }
    }

    fn family(&self) -> String {
        let mut table =
            "| one worker, free keys, five nodes, guards | median acquisition | plain lock = 1 |\n\
             |---|---|---|\n"
                .to_owned();
        let p50 = |line: &Value| line["wait_p50_us"].as_f64().unwrap_or(f64::NAN);
        let plain = self.find(Subject::Ours, Workload::Free, NODES);
        for (way, name) in FAMILY {
            let (Some(plain), Some(line)) = (plain, self.find(way, Workload::Free, NODES)) else {
                continue;
            };
            let times = p50(line) / p50(plain);
            table += &format!("| {name} | {} | {times:.2} |\n", micros(p50(line)));
        }
        table
    }

    fn leases(&self) -> String {
        let mut table =
            "| | locks | time to acquire one | memory of a held lock | memory of a waiter \
             | renewals, share of one core |\n|---|---|---|---|---|---|\n"
                .to_owned();
        for (way, name) in WAYS {
            let Some(line) = self.find(way, Workload::Leases, NODES) else {
                continue;
            };
            let get = |name: &str| line[name].as_f64().unwrap_or(f64::NAN);
            table += &format!(
                "| {name} | {} | {} | {} bytes | {} bytes | {:.1} % |\n",
                grouped(get("leases")),
                micros(get("acquire_us_each")),
                grouped(get("held_bytes_each")),
                grouped(get("waiting_bytes_each")),
                100.0 * get("renewal_cpu_share"),
            );
        }
        table
    }

    /// A row for each figure, a column for each way.
    fn targets(&self) -> String {
        let ways = &WAYS[4..];
        let mut table = header("workload on nodes: figure", ways);
        let targets = self.0.iter().filter(|line| line["target"].is_string());
        let row_of = |line: &Value| {
            let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            format!(
                "{} on {}: {}",
                text("workload"),
                line["nodes"],
                text("target")
            )
        };
        let mut rows: Vec<String> = Vec::new();
        for row in targets.clone().map(row_of) {
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
        for row in rows {
            table += &format!("| {row} |");
            for (way, _) in ways {
                let is_here = |line: &&Value| row_of(line) == row && line["subject"] == way.name();
                let cell = targets.clone().find(is_here).map(target);
                table += &format!(" {} |", cell.as_deref().unwrap_or("–"));
            }
            table += "\n";
        }
        table
    }

    fn figures(&self) -> impl Iterator<Item = &Value> {
        let lines = self.0.iter();
        lines.filter(|line| line["workload"].is_string() && line["target"].is_null())
    }

    fn find(&self, way: Subject, workload: Workload, nodes: usize) -> Option<&Value> {
        self.figures().find(|line| {
            line["subject"] == way.name()
                && line["workload"] == workload.name()
                && line["nodes"] == nodes
        })
    }
}

impl Row {
    fn of(&self, line: &Value) -> Option<String> {
        let get = |name: &str| line[name].as_f64();
        match self {
            Self::Count(name) => get(name).map(grouped),
            Self::Micros(name) => get(name).map(micros),
            Self::Sections => {
                let (least, most) = (get("sections_min")?, get("sections_max")?);
                Some(format!("{} to {}", grouped(least), grouped(most)))
            }
        }
    }
}

/// `0.992 (≤ 1.05)`; the figure is bold if it misses its target.
fn target(line: &Value) -> String {
    let sign = if line["kind"] == "at most" {
        "≤"
    } else {
        "≥"
    };
    let strong = if line["met"] == true { "" } else { "**" };
    format!(
        "{strong}{}{strong} ({sign} {})",
        line["value"], line["bound"]
    )
}

fn header(first: &str, ways: &[(Subject, &str)]) -> String {
    let names = ways.iter().map(|(_, name)| *name).collect::<Vec<_>>();
    let line = "---|".repeat(names.len() + 1);
    format!("| {first} | {} |\n|{line}\n", names.join(" | "))
}

fn micros(time: f64) -> String {
    if time < 10_000.0 {
        format!("{} µs", grouped(time))
    } else {
        format!("{} ms", grouped(time / 1e3))
    }
}

/// A whole number, its thousands apart.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}
