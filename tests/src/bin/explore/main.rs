//! Explores every course that the making of fencing tokens can take, with three nodes and up to
//! three acquisitions of one key, and checks that tokens are unique and grow in real time.
//!
//! ```text
//! cargo run --release -p redlock-tests --bin explore -- [--mutants]
//! ```
//!
//! There is no clock: any key may be gone at any moment, any message may arrive at any later time
//! or never, a lock may be handed on to an acquisition that goes on under its owner, and nodes may
//! lose their memory. What an acquisition makes of the replies is decided by the protocol's own source;
//! nodes and messages are models. The last line is JSON. The exit status is 1 if a token is wrong,
//! or, with `--mutants`, if a model with a deliberate fault has none that is.

mod model;
mod protocol;
mod search;

use std::{process::ExitCode, time::Instant};

use crate::{
    model::{Mutant, Rules},
    search::{Found, explore},
};

/// The courses that are explored: all but the last to their end.
const COURSES: [(&str, Rules); 5] = [
    (
        "three acquisitions",
        Rules {
            acquirers: 3,
            ..Rules::NONE
        },
    ),
    (
        "three, handed on",
        Rules {
            acquirers: 3,
            hand_over: true,
            ..Rules::NONE
        },
    ),
    (
        "two, proposals, releases, handed on",
        Rules {
            acquirers: 2,
            hand_over: true,
            releases: true,
            proposals: true,
            ..Rules::NONE
        },
    ),
    (
        "two, lost memory",
        Rules {
            acquirers: 2,
            hand_over: true,
            losses: true,
            ..Rules::NONE
        },
    ),
    (
        "three, releases, in part",
        Rules {
            acquirers: 3,
            releases: true,
            most: 500_000,
            ..Rules::NONE
        },
    ),
];

fn main() -> ExitCode {
    let with_mutants = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--mutants") => true,
        Some(other) => {
            eprintln!("cannot understand `{other}`");
            return ExitCode::from(2);
        }
    };
    let began = Instant::now();
    let mut states = 0;
    let mut wrong = 0;
    for (name, rules) in &COURSES {
        let found = explore(rules);
        println!(
            "{name}: {} states, {} steps, {} tokens: {}",
            found.states,
            found.steps,
            found.tokens,
            found.wrong.as_deref().unwrap_or("all in order")
        );
        states += found.states;
        wrong += usize::from(found.wrong.is_some());
    }
    let mut survivors = Vec::new();
    if with_mutants {
        survivors = Mutant::ALL
            .into_iter()
            .filter(|&mutant| survives(mutant))
            .collect();
    }
    println!(
        "{{\"courses\":{},\"states\":{states},\"wrong\":{wrong},\"mutants\":{},\"survivors\":{},\"seconds\":{:.1}}}",
        COURSES.len(),
        if with_mutants { Mutant::ALL.len() } else { 0 },
        survivors.len(),
        began.elapsed().as_secs_f64()
    );
    if wrong == 0 && survivors.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Tries a mutant in each course until one of them has a wrong token.
fn survives(mutant: Mutant) -> bool {
    let found = COURSES.iter().find_map(|(name, rules)| {
        let Found { states, wrong, .. } = explore(&Rules {
            mutant: Some(mutant),
            ..*rules
        });
        wrong.map(|wrong| (name, states, wrong))
    });
    match &found {
        Some((name, states, wrong)) => println!("{mutant:?}: {name}, {states} states: {wrong}"),
        None => println!("{mutant:?}: survives"),
    }
    found.is_none()
}
