//! Explores every course that fencing tokens and quarantines can take, with the rules of
//! `redlock-protocol`, and checks what must be true in each of them.
//!
//! ```text
//! cargo run --release -p redlock-explore -- [--mutants | --only NAME]
//! ```
//!
//! - *Tokens*, without any clock: a key may be gone at any moment, a message may be late, lost or
//!   doubled. Numbers are unique, and each block lies above all that were complete when its round
//!   was asked for: [`tokens::rounds`]. Hand-outs rise: [`tokens::turns`].
//! - *Quarantine*, in discrete time: two clients never hold the lock together, whatever nodes forget:
//!   [`quarantine`].
//!
//! Nodes, messages and clients are models, as small as they can be. What follows from the replies is
//! decided by the protocol's own code: `Numbers`, `Block`, `majority`, `Readings`.
//!
//! With `--mutants` each rule is broken on purpose, and a course must show it; `--only` explores what
//! has that name, and prints the course by which a mutant is found. The last line is JSON. The exit status
//! is 1 if a rule is broken that is not meant to be, or if a mutant is not found.

mod quarantine;
mod search;
mod tokens;
mod trial;

use std::{env, process::ExitCode, time::Instant};

use search::Found;
use trial::Trial;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => run(false),
        ["--mutants"] => run(true),
        ["--only", name] => show(name),
        _ => {
            eprintln!("usage: redlock-explore [--mutants | --only NAME]");
            ExitCode::from(2)
        }
    }
}

fn courses() -> Vec<Trial> {
    let mut courses = tokens::courses::courses();
    courses.extend(quarantine::courses::courses());
    courses
}

fn mutants() -> Vec<Trial> {
    let mut mutants = tokens::courses::mutants();
    mutants.extend(quarantine::courses::mutants());
    mutants
}

/// Everything; the last line is the sum of it.
fn run(with_mutants: bool) -> ExitCode {
    let began = Instant::now();
    let courses = trial::run_all(courses());
    let mutants = trial::run_all(if with_mutants { mutants() } else { Vec::new() });
    let unexpected = |trials: &[(Trial, Found)]| {
        let is_unexpected = |(trial, found): &&(Trial, Found)| !trial.is_as_expected(found);
        trials.iter().filter(is_unexpected).count()
    };
    let (wrong, survivors) = (unexpected(&courses), unexpected(&mutants));
    let states: usize = courses.iter().map(|(_, found)| found.states).sum();
    println!(
        "{{\"courses\":{},\"states\":{states},\"wrong\":{wrong},\"mutants\":{},\"survivors\":{survivors},\"seconds\":{:.1}}}",
        courses.len(),
        mutants.len(),
        began.elapsed().as_secs_f64()
    );
    ExitCode::from(u8::from(wrong + survivors > 0))
}

/// One course or mutant, with the steps by which it is found.
fn show(name: &str) -> ExitCode {
    let mut trials = courses().into_iter().chain(mutants());
    let Some(trial) = trials.find(|trial| trial.name == name) else {
        eprintln!("nothing is called {name}");
        return ExitCode::from(2);
    };
    let found = trial.run();
    if let Some(violation) = &found.violation {
        println!("  {}", violation.course.join("\n  "));
    }
    ExitCode::from(u8::from(!trial.is_as_expected(&found)))
}
