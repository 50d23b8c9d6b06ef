//! Simulates fleets of processes that lock through `redlock-protocol`, in virtual time, while nearly
//! everything goes wrong, and checks what must be true all the same.
//!
//! ```text
//! cargo run --release -p redlock-simulate -- --histories 100000 --seed 1
//!     [--profile inside|outside] [--nodes 1..7|all] [--draw <name>,...] [--scenario <name>|all]
//!     [--rule <name>,...|all] [--told 10] [--threads 2] [--until-found] [--verbose]
//! ```
//!
//! A history is one seed: the history at place `i` has the seed `seed + i * STRIDE`, so that
//! `--histories 1 --verbose --seed <that>` replays it, with its trace. The last line is JSON. The
//! exit status is 1 if a rule was broken that must hold in the profile.

mod agenda;
mod ailment;
mod answers;
mod breaking;
mod callers;
mod checker;
mod client;
mod clock;
mod draws;
mod execution;
mod faults;
mod foreign;
mod kinds;
mod log;
mod made;
mod names;
mod network;
mod node;
mod params;
mod permits;
mod phases;
mod plan;
mod random;
mod report;
mod rules;
mod scenario;
mod sets;
mod sickness;
mod strike;
mod tally;
mod witnesses;
mod world;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::{
    checker::{Rule, Violation},
    draws::Draw,
    log::Log,
    plan::{Profile, Wanted},
    report::Report,
    scenario::Scenario,
    world::{History, World},
};

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// When histories begin by the wall, in microseconds.
const EPOCH: u64 = 1_800_000_000_000_000;

/// How many histories are run twice and compared: one in so many.
const REPLAYED: u64 = 1_000;

/// How many histories a thread takes at a time.
const PORTION: u64 = 64;

/// A history that takes longer than this has no end: others take some milliseconds, and a thread that others
/// keep waiting takes some seconds.
const LONGEST: Duration = Duration::from_secs(120);

/// What was asked for on the command line.
#[derive(Clone, Debug)]
struct Settings {
    histories: u64,
    seed: u64,
    wanted: Wanted,
    /// Only violations of these rules are told and count; of all, if there are none.
    rules: Vec<Rule>,
    /// How many violations are told in full.
    told: usize,
    threads: usize,
    until_found: bool,
    verbose: bool,
}

fn main() -> ExitCode {
    let settings = match Settings::parse(std::env::args().skip(1)) {
        Ok(settings) => settings,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(2);
        }
    };
    if !settings.verbose {
        // A panic is a violation like others, and told as such.
        std::panic::set_hook(Box::new(|_| {}));
    }
    let began = Instant::now();
    let report = run_all(&settings);
    print!("{}", report.text(&settings, began.elapsed()));
    if report.is_bad(&settings) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Histories do not know of each other, and sums do not care for order: the number of threads
/// changes nothing. What comes after the first violation is left out if only that is wanted.
fn run_all(settings: &Settings) -> Report {
    let next = AtomicU64::new(0);
    let first = AtomicU64::new(u64::MAX);
    let began = Instant::now();
    let places: Vec<Place> = (0..settings.threads).map(|_| Place::default()).collect();
    let work = |place: &Place| {
        let mut report = Report::default();
        loop {
            let start = next.fetch_add(PORTION, Ordering::Relaxed);
            if start >= settings.histories || start > first.load(Ordering::Relaxed) {
                return report;
            }
            for index in start..settings.histories.min(start + PORTION) {
                place.store(index + 1, Ordering::Relaxed);
                let found = run_one(settings, index, &mut report);
                place.store(0, Ordering::Relaxed);
                if found && settings.until_found {
                    first.fetch_min(index, Ordering::Relaxed);
                    return report;
                }
            }
        }
    };
    let work = &work;
    let mut report = Report::default();
    thread::scope(|scope| {
        let spawn = |place| scope.spawn(move || work(place));
        let threads: Vec<_> = places.iter().map(spawn).collect();
        let mut seen = vec![(0, began); places.len()];
        while !threads.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(Duration::from_millis(20));
            for (place, seen) in places.iter().zip(&mut seen) {
                check(place, settings, seen, began);
            }
        }
        for thread in threads {
            if let Ok(part) = thread.join() {
                report.add(part);
            }
        }
    });
    report
}

/// The place of the history that a thread is at, plus one; zero while it has none.
type Place = AtomicU64;

/// Ends the simulation if a history does not. `seen` is which one the thread was first seen at when.
fn check(place: &Place, settings: &Settings, seen: &mut (u64, Instant), began: Instant) {
    let after = place.load(Ordering::Relaxed);
    if seen.0 != after {
        *seen = (after, Instant::now());
    }
    if after > 0 && seen.1.elapsed() > LONGEST && !settings.verbose {
        let mut report = Report::default();
        report.on_endless(after - 1, seed_of(settings, after - 1));
        print!("{}", report.text(settings, began.elapsed()));
        std::process::exit(1);
    }
}

fn seed_of(settings: &Settings, index: u64) -> u64 {
    settings
        .seed
        .wrapping_add(index.wrapping_mul(random::STRIDE))
}

/// True if a rule was broken that must hold.
fn run_one(settings: &Settings, index: u64, report: &mut Report) -> bool {
    let seed = seed_of(settings, index);
    let replayed = index.is_multiple_of(REPLAYED);
    let log = match (settings.verbose, replayed) {
        (true, _) => Log::Printed,
        (false, true) => Log::hashed(),
        (false, false) => Log::Off,
    };
    let mut history = simulate(settings, seed, log);
    if replayed && !settings.verbose {
        report.replayed += 1;
        let again = simulate(settings, seed, Log::hashed());
        if again.digest != history.digest {
            let what = format!("{:x} and then {:x}", history.digest, again.digest);
            let violation = Violation::of_all(Rule::Replay, what);
            history.violations.push(violation);
        }
    }
    report.on_history(index, seed, settings, history)
}

fn simulate(settings: &Settings, seed: u64, log: Log) -> History {
    let run = || World::new(seed, settings.wanted, log).run();
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        History {
            violations: vec![Violation::of_all(Rule::Panic, text.unwrap_or_default())],
            ..History::default()
        }
    })
}

impl Settings {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut settings = Self {
            histories: 10_000,
            seed: 1,
            wanted: Wanted::default(),
            rules: Vec::new(),
            told: 10,
            threads: thread::available_parallelism().map_or(1, usize::from),
            until_found: false,
            verbose: false,
        };
        while let Some(name) = arguments.next() {
            match name.as_str() {
                "--until-found" => settings.until_found = true,
                "--verbose" => settings.verbose = true,
                _ => {
                    let value = arguments.next().unwrap_or_default();
                    settings
                        .set(&name, &value)
                        .ok_or_else(|| format!("cannot understand `{name} {value}`"))?;
                }
            }
        }
        if settings.verbose {
            settings.threads = 1;
        }
        Ok(settings)
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "--histories" => self.histories = value.parse().ok()?,
            "--told" => self.told = value.parse().ok()?,
            "--seed" => self.seed = value.parse().ok()?,
            "--threads" => self.threads = value.parse().ok().filter(|&threads| threads > 0)?,
            "--profile" => self.wanted.profile = Profile::parse(value).ok()?,
            "--nodes" => {
                self.wanted.nodes = match value {
                    "all" => None,
                    "1" | "2" | "3" | "4" | "5" | "6" | "7" => value.parse().ok(),
                    _ => return None,
                }
            }
            "--draw" => {
                for name in value.split(',') {
                    self.wanted.draws.add(Draw::parse(name).ok()?);
                }
            }
            "--rule" => {
                self.rules = match value {
                    "all" => Vec::new(),
                    names => names
                        .split(',')
                        .map(Rule::parse)
                        .collect::<Result<_, _>>()
                        .ok()?,
                }
            }
            "--scenario" => {
                self.wanted.scenario = match value {
                    "all" => None,
                    name => Some(Scenario::parse(name).ok()?),
                }
            }
            _ => return None,
        }
        Some(())
    }
}
