//! Short runs of the program `chaos`: every kind of lock in eight processes over five servers under faults.

use std::{
    process::Command,
    sync::{Mutex, PoisonError},
};

use serde_json::Value;

/// The rules that no slow machine can break. The program judges times as well.
const RULES: [&str; 5] = ["overlap", "token", "period", "panic", "left_behind"];

#[test]
fn no_promise_is_broken_while_faults_strike() {
    let verdict = chaos(&["--seconds", "24", "--seed", "7"]);
    assert!(verdict["effective_faults"].as_u64().unwrap() > 0);
    for rule in RULES {
        assert_eq!(verdict["violations"][rule], 0, "{rule}: {verdict}");
    }
    let sections = verdict["sections"].as_object().unwrap();
    assert_eq!(sections.len(), 12, "some kind was never held: {verdict}");
}

#[test]
fn the_judge_sees_a_client_that_locks_nothing() {
    let verdict = chaos(&["--seconds", "15", "--seed", "7", "--break"]);
    for rule in ["overlap", "token"] {
        let found = verdict["violations"][rule].as_u64().unwrap();
        assert!(found > 0, "{rule}: {verdict}");
    }
}

/// Runs the program and returns its last line.
fn chaos(arguments: &[&str]) -> Value {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut program = Command::new(env!("CARGO_BIN_EXE_chaos"));
    let output = program.args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8(output.stdout).unwrap();
    let verdict = text.lines().last().unwrap_or_else(|| panic!("{said}"));
    serde_json::from_str(verdict).unwrap()
}
