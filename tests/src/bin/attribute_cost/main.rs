//! What `#[redis_lock]` costs: bytes of the future, polls, time per call, time to compile.
//!
//! ```sh
//! cargo run --release -p redlock-tests --bin attribute_cost              # half a minute
//! cargo run --release -p redlock-tests --bin attribute_cost -- --json
//! cargo run --release -p redlock-tests --bin attribute_cost -- --compile # some minutes more
//! ```
//!
//! Each figure stands beside that of the same function written by hand, with
//! [`Lock::hold`](redlock_runtime::Lock::hold) and with a guard, and of the plain function. Bytes
//! and polls are checked, here and in the tests of this binary; the command fails if one is off.
//! Times are compared in rounds that take turns, and are told as medians.

mod compile;
mod functions;
mod polls;
mod report;
mod sizes;
mod time;

use std::{error::Error, process::ExitCode};

use redlock_runtime::{ConfigError, Installed, Redlock};

use self::report::Report;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut json = false;
    let mut with_compile = false;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--json" => json = true,
            "--compile" => with_compile = true,
            other => return Err(format!("unknown argument {other}: --json, --compile").into()),
        }
    }

    let mut report = Report::default();
    sizes::measure(&mut report);
    polls::measure(&mut report)?;
    time::measure(&mut report)?;
    if with_compile {
        compile::measure(&mut report)?;
    }
    if json {
        println!("{}", report.json());
    } else {
        print!("{report}");
    }
    Ok(match report.complaints() {
        [] => ExitCode::SUCCESS,
        complaints => {
            for complaint in complaints {
                eprintln!("error: {complaint}");
            }
            ExitCode::FAILURE
        }
    })
}

/// One node in memory, used by every function here.
async fn install() -> Result<Installed, ConfigError> {
    one_node().install().await
}

fn one_node() -> redlock_runtime::Builder {
    Redlock::builder().nodes(["memory://attribute-cost"])
}

/// What is installed, for the functions that are written by hand.
fn redlock() -> Redlock {
    Redlock::installed().expect("`install` comes first")
}

fn current_thread() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
