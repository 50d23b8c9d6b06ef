//! What `#[redis_lock]` costs: bytes of the future, polls, time per call, time to compile.
//!
//! ```sh
//! cargo run --release -p redlock-tests --bin attribute_cost              # half a minute
//! cargo run --release -p redlock-tests --bin attribute_cost -- --compile # some minutes more
//! ```
//!
//! Each figure stands beside that of the plain function, and times also beside those of the same function
//! written by hand with [`Lock::hold`](redlock_runtime::Lock::hold). Bytes and polls are checked, here and in the tests of this binary; the command fails if one is off.
//! Times are compared in rounds that take turns, and are told as medians.

mod compile;
mod functions;
mod polls;
mod sizes;
mod time;

use std::{env, error::Error};

use redlock_runtime::{ConfigError, Installed, Redlock};

fn main() -> Result<(), Box<dyn Error>> {
    let with_compile = match env::args().nth(1).as_deref() {
        None => false,
        Some("--compile") => true,
        Some(other) => return Err(format!("unknown argument {other}: --compile").into()),
    };
    let mut complaints = sizes::measure();
    complaints.extend(polls::measure()?);
    time::measure()?;
    if with_compile {
        compile::measure()?;
    }
    match complaints.is_empty() {
        true => Ok(()),
        false => Err(complaints.join("\n").into()),
    }
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
