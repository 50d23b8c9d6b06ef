//! Eight real processes use every kind of lock over five real servers while faults strike, and a judge reads
//! what all of them recorded.
//!
//! ```text
//! cargo run --release -p redlock-tests --bin chaos -- --seconds 60 --seed 1
//!     [--phase minority|majority|both] [--record file] [--judge file] [--break] [--dense | --soak]
//! ```
//!
//! The last line is JSON. The exit status is 1 if a promise was broken, and 2 if the run proves nothing
//! because the machine was too slow for the plan. `--break` lets one client do some sections without the
//! lock, so that the judge has something to find. With `--dense`, faults are shorter and more frequent. With
//! `--soak`, they are rare, ten thousand locks are held meanwhile, the clients do as much as they can, and the judge
//! asks whether anything grows. `--judge` reads what `--record` has saved of a run with the same arguments.

mod client;
mod judge;
mod plan;
mod record;
mod strike;

use std::{env, error::Error, fs, process::ExitCode};

use crate::{
    judge::Judge,
    plan::Plan,
    record::{History, now},
    strike::World,
};

/// A plan that runs later than this many milliseconds no longer keeps faults apart.
const LATE: u64 = 500;

const ARGUMENTS: [&str; 8] = [
    "--seconds",
    "--seed",
    "--phase",
    "--record",
    "--break",
    "--dense",
    "--soak",
    "--judge",
];

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["client", rest @ ..] = &arguments[..] {
        return client::main(rest);
    }
    let is_unknown = |name: &&&str| name.starts_with("--") && !ARGUMENTS.contains(name);
    if let Some(unknown) = arguments.iter().find(is_unknown) {
        return Err(format!("{unknown} is none of {ARGUMENTS:?}").into());
    }
    let value = |name: &str| {
        let place = arguments.iter().position(|argument| *argument == name)?;
        arguments.get(place + 1).copied()
    };
    let seed: u64 = value("--seed").unwrap_or("1").parse()?;
    let seconds: u64 = value("--seconds").unwrap_or("60").parse()?;
    let is = |name: &str| arguments.contains(&name);
    let (pace, least, phase) = match () {
        () if is("--soak") => (&plan::SOAK, 180, "minority"),
        () if is("--dense") => (&plan::DENSE, 15, "both"),
        () => (&plan::SHORT, 15, "both"),
    };
    if seconds < least {
        return Err(format!("such a run takes {least} seconds or more").into());
    }
    let plan = Plan::new(seed, seconds, value("--phase").unwrap_or(phase), pace);
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("record");
    let (late, left, ends) = if let Some(file) = value("--judge") {
        fs::copy(file, &path)?;
        (0, Vec::new(), Vec::new())
    } else {
        let world = World::start(&path, seed, pace, is("--break"));
        let late = world.run(&plan);
        let (left, ends) = world.end();
        (late, left, ends)
    };
    let text = fs::read_to_string(&path)?;
    if let Some(copy) = value("--record") {
        fs::write(copy, &text)?;
    }

    let mut history = History::read(&text);
    let mut judge = Judge::new(&mut history, &plan.phases, pace);
    judge.judge();
    let at = (now(), now());
    for key in left {
        judge.accuse("left_behind", at, key);
    }
    for end in ends.iter().filter(|end| !end.success()) {
        judge.accuse("panic", at, format!("a client ended with {end}"));
    }
    let verdict = judge.verdict(seed, seconds, late);
    let violations = judge.violations;
    for violation in violations.iter().take(20) {
        let at = violation.from.saturating_sub(history.begun) / 1_000;
        eprintln!("{} at {at} ms: {}", violation.rule, violation.text);
    }
    println!("{verdict}");
    Ok(ExitCode::from(match (violations.is_empty(), late > LATE) {
        (false, _) => 1,
        (true, true) => 2,
        (true, false) => 0,
    }))
}
