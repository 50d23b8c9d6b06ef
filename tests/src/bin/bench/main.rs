//! How fast and how fair the lock is, on real servers, beside what the network allows and beside
//! another library.
//!
//! ```text
//! cargo run --release -p redlock-tests --bin bench -- [--seconds 1] [--rounds 3] [--json]
//!     [--nodes 5,3,1] [--only W1,W2,..] [--subjects floor,ours,..] [--leases 100000]
//! cargo run --release -p redlock-tests --bin bench -- --json > results.json
//! cargo run --release -p redlock-tests --bin bench -- write tests/BENCHMARK.md < results.json
//! ```
//!
//! It prints tables, or with `--json` a line of JSON for the machine, one for each subject, workload and number
//! of nodes, and then one for each target. `write` writes the tables of a page from these lines;
//! `scripts/benchmark` does both.
//!
//! Every figure is that of processes of their own, started for it; subjects take turns, and what
//! is told is the median of the rounds. Targets, which `tests/TARGETS.md` explains, compare subjects within a round. It
//! is a measurement: a target that is missed does not make the command fail. Two holders at once do.

mod advisory;
mod client;
mod coordinator;
mod delay;
mod figures;
mod floor;
mod hold;
#[path = "../../../simulate/src/kinds.rs"]
mod kinds;
mod leases;
mod machine;
mod options;
mod page;
mod subject;
mod targets;
mod worker;
mod workload;

use std::{error::Error, process::ExitCode};

use self::{coordinator::Bench, figures::Result, options::Options, page::Run, targets::Target};

fn main() -> std::result::Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("worker") => worker::main(&arguments[1..]).map(|()| ExitCode::SUCCESS),
        Some("leases") => leases::main(&arguments[1..]).map(|()| ExitCode::SUCCESS),
        Some("write") => page::main(&arguments[1..]).map(|()| ExitCode::SUCCESS),
        _ => measure(&Options::parse(&arguments)?),
    }
}

fn measure(options: &Options) -> std::result::Result<ExitCode, Box<dyn Error>> {
    let mut results = Vec::new();
    for &nodes in &options.nodes {
        results.extend(Bench::start(nodes, options)?.measure()?);
    }
    let mut lines = vec![machine::describe(options)];
    lines.extend(results.iter().map(Result::json));
    lines.extend(targets::check(&results).iter().map(Target::json));
    if options.json {
        for line in lines {
            println!("{line}");
        }
    } else {
        print!("{}", Run(lines).tables()?);
    }
    // Not measured with many leases.
    let overlaps = results.iter().map(|result| result.get("overlaps"));
    let overlaps: f64 = overlaps.filter(|count| !count.is_nan()).sum();
    let errors: f64 = results.iter().map(|result| result.get("errors")).sum();
    if errors > 0.0 {
        eprintln!("{errors} acquisitions failed");
    }
    if overlaps > 0.0 {
        eprintln!("error: {overlaps} times two held one lock");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
