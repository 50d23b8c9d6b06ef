//! The page of guarantees names tests, rules and mutants that exist.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Beside this crate.
const PAGE: &str = "../redlock-runtime/src/guarantees.md";

#[test]
fn every_test_that_is_named_exists() {
    for name in column(1) {
        let (file, test) = name.split_once("::").unwrap();
        let definition = format!("fn {test}(");
        let is_there = |path: &PathBuf| fs::read_to_string(path).unwrap().contains(&definition);
        assert!(files(file).iter().any(is_there), "there is no test {name}");
    }
}

#[test]
fn every_rule_that_is_named_exists() {
    let checker = files_in(Path::new("simulate/src/checker"));
    let checker: Vec<String> = checker
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    for name in column(2) {
        let rule = format!("\"{name}\"");
        let is_there = checker.iter().any(|text| text.contains(&rule));
        assert!(is_there, "there is no rule {name}");
    }
}

#[test]
fn every_mutant_that_is_named_exists() {
    for name in column(3) {
        let file = Path::new("mutants").join(&name).with_extension("mutant");
        assert!(file.exists(), "there is no mutant {name}");
    }
}

#[test]
fn every_promise_has_a_row_of_tests() {
    let page = fs::read_to_string(PAGE).unwrap();
    let (_, promises) = page.split_once("\n# Promises\n").unwrap();
    let promises = promises.split("\n# ").next().unwrap();
    let is_promise = |line: &&str| line.starts_with(|first: char| first.is_ascii_digit());
    let promises = promises.lines().filter(is_promise).count();
    let table = tests_of(&page);
    for number in 1..=promises {
        let row = format!("\n| {number}. ");
        assert_eq!(table.matches(&row).count(), 1, "promise {number}");
    }
    assert_eq!(promises, 9);
}

/// A rule that has to be widened to pass takes the promise along.
#[test]
fn the_bounds_are_those_that_the_simulator_checks() {
    let page = fs::read_to_string(PAGE).unwrap();
    for (bound, file, rule) in [
        (
            "| 150 ms + 10 round trips |",
            "liveness",
            "SOON: u64 = 150 * MILLI;",
        ),
        (
            "| 500 ms + 10 round trips |",
            "liveness",
            "LATE: u64 = 500 * MILLI;",
        ),
        (
            "| 8 rounds, and one for each lock",
            "cost",
            "MOST_ROUNDS: u32 = 8;",
        ),
    ] {
        assert!(page.contains(bound), "{bound}");
        let rules = Path::new("simulate/src/rules")
            .join(file)
            .with_extension("rs");
        assert!(fs::read_to_string(rules).unwrap().contains(rule), "{rule}");
    }
}

/// The part of the page that has the table of tests.
fn tests_of(page: &str) -> &str {
    let (_, tests) = page.split_once("\n# Tests behind the promises\n").unwrap();
    tests.split("\n# ").next().unwrap()
}

/// The names in one column of the table of tests.
fn column(column: usize) -> Vec<String> {
    let page = fs::read_to_string(PAGE).unwrap();
    let is_promise = |line: &&str| {
        let first = line.strip_prefix("| ");
        first.is_some_and(|first| first.starts_with(|first: char| first.is_ascii_digit()))
    };
    let cells = tests_of(&page).lines().filter(is_promise);
    let cells = cells.map(|line| line.split('|').nth(1 + column).unwrap());
    let names: Vec<String> = cells
        .flat_map(|cell| cell.split(','))
        .map(|name| name.trim().trim_matches('`').to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    assert!(names.len() > 10, "the table is not found: {names:?}");
    names
}

/// The sources that a file of tests consists of.
fn files(name: &str) -> Vec<PathBuf> {
    match name {
        "protocol" => files_in(Path::new("../redlock-runtime/protocol")),
        name => {
            let files = files_in(Path::new("tests")).into_iter();
            let file = format!("{name}.rs");
            files
                .filter(|path| path.ends_with(&file) || path.iter().any(|part| part == name))
                .collect()
        }
    }
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => files_in(&path),
            false => vec![path],
        })
        .collect()
}
