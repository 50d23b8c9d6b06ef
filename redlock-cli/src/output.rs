//! What the program writes.

use std::{
    fmt::Display,
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use redlock_runtime::{ConfigError, ConfigProblem, NODES_VARIABLE, ProblemKind};

/// Whether a line of output is lost.
static IS_INCOMPLETE: AtomicBool = AtomicBool::new(false);

pub(crate) fn is_incomplete() -> bool {
    IS_INCOMPLETE.load(Relaxed)
}

/// Says something beside the output. Its reader may be gone, which changes nothing else.
pub(crate) fn remark(text: &dyn Display) {
    let _ = writeln!(io::stderr(), "redlock: {text}");
}

/// Writes a line.
pub(crate) fn line(text: &dyn Display) {
    write(format!("{text}\n").as_bytes());
}

pub(crate) fn write(bytes: &[u8]) {
    let mut out = io::stdout();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    // A reader may have seen enough, as `head` has.
    if written.is_err_and(|error| error.kind() != io::ErrorKind::BrokenPipe) {
        IS_INCOMPLETE.store(true, Relaxed);
    }
}

/// What is wrong with the configuration. Names of options are those of this program, and what only the
/// library's builder could do about it is left out.
pub(crate) fn in_words(error: &ConfigError) -> String {
    let words = |problem: &ConfigProblem| {
        let fact = &problem.fact;
        Some(match problem.kind {
            ProblemKind::BadOption | ProblemKind::NotTogether => {
                format!("`--{}`: {fact}", problem.setting.replace('_', "-"))
            }
            ProblemKind::NoNodes | ProblemKind::ServersRequired => {
                format!("{fact}; name some with `--nodes` or in {NODES_VARIABLE}")
            }
            ProblemKind::NoQuorum => fact.to_string(),
            _ => return None,
        })
    };
    let words: Option<Vec<String>> = error.problems().iter().map(words).collect();
    words.map_or_else(|| error.to_string(), |words| words.join("; "))
}
