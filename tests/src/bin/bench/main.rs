//! How fast and how fair the lock is, on real servers, beside what the network allows and beside
//! another library.
//!
//! ```text
//! cargo run --release -p redlock-tests --bin bench -- [--seconds 1] [--rounds 3] [--json]
//!     [--nodes 5,3,1] [--only W1,W2,..] [--subjects floor,in-runtime,..] [--leases 100000]
//! cargo run --release -p redlock-tests --bin bench -- --json > results.json
//! cargo run --release -p redlock-tests --bin bench -- write tests/BENCHMARK.md < results.json
//! ```
//!
//! With `--json` the table goes to stderr, and stdout gets a line of JSON for the machine, one for each
//! subject, workload and number of nodes, and then one for each target. `write` writes the tables of a
//! page and the chart beside it from these lines; `scripts/benchmark` does both.
//!
//! Every figure is that of processes of their own, started for it; subjects take turns, and what
//! is told is the median of the rounds. Targets compare subjects within a round. It is a
//! measurement: a target that is missed does not make the command fail. Two holders at once do.

mod charts;
mod client;
mod coordinator;
mod delay;
mod figures;
mod floor;
mod hold;
mod leases;
mod machine;
mod options;
mod page;
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
        Some("leases") => leases::main(&arguments[1..]).map(|()| ExitCode::SUCCESS),
        Some("write") => page::main(&arguments[1..]).map(|()| ExitCode::SUCCESS),
        _ => measure(&Options::parse(&arguments)?),
    }
}

fn measure(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let mut results = Vec::new();
    for &nodes in &options.nodes {
        results.extend(Bench::start(nodes, options)?.measure()?);
    }
    let targets = targets::check(&results);
    let table = table::of(&results, &targets);
    if options.json {
        eprint!("{table}");
        println!("{}", machine::describe(options));
        for result in &results {
            println!("{}", result.json());
        }
        for target in &targets {
            println!("{}", target.json());
        }
    } else {
        print!("{table}");
    }
    // Not measured with many leases.
    let overlaps = results.iter().map(|result| result.get("overlaps"));
    let overlaps: f64 = overlaps.filter(|count| !count.is_nan()).sum();
    if overlaps > 0.0 {
        eprintln!("error: {overlaps} times two held one lock");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
