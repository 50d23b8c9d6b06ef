//! How fast and how fair the lock is, on real servers, beside what the network allows and beside
//! another library.
//!
//! ```text
//! cargo run --release -p redlock-tests --bin bench -- [--seconds 2] [--rounds 3] [--json]
//!     [--nodes 1,3,5] [--only W1,W2,..] [--subjects floor,in-runtime,..]
//! cargo run --release -p redlock-tests --bin bench -- --json > results.json
//! cargo run --release -p redlock-tests --bin bench -- charts < results.json > charts.svg
//! ```
//!
//! With `--json` the table goes to stderr, and stdout gets a line of JSON for each subject, workload
//! and number of nodes, and then one for each target.
//!
//! Every figure is that of processes of their own, started for it; subjects take turns, and what
//! is told is the median of the rounds. Targets compare subjects within a round. It is a
//! measurement: a target that is missed does not make the command fail. Two holders at once do.

mod charts;
mod client;
mod coordinator;
mod figures;
mod floor;
mod hold;
mod options;
mod stall;
mod subject;
mod table;
mod targets;
mod worker;
mod workload;

use std::{error::Error, process::ExitCode};

use self::{coordinator::Bench, options::Options};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("worker") => worker::main(&arguments[1..]).map(|()| ExitCode::SUCCESS),
        Some("charts") => charts::main().map(|()| ExitCode::SUCCESS),
        _ => measure(&Options::parse(&arguments)?),
    }
}

fn measure(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let mut results = Vec::new();
    for &nodes in &options.nodes {
        results.extend(Bench::start(nodes, options).measure()?);
    }
    let targets = targets::check(&results);
    let table = table::of(&results, &targets);
    if options.json {
        eprint!("{table}");
        for result in &results {
            println!("{}", result.json());
        }
        for target in &targets {
            println!("{}", target.json());
        }
    } else {
        print!("{table}");
    }
    let overlaps: f64 = results.iter().map(|result| result.get("overlaps")).sum();
    if overlaps > 0.0 {
        eprintln!("error: {overlaps} times two held one lock");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
