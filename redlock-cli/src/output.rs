//! How the program ends.

use std::{
    fmt::Display,
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

#[cfg(unix)]
use redlock_runtime::LockError;
use redlock_runtime::{ConfigError, ConfigProblem, NODES_VARIABLE, ProblemKind, Why, WhyKind};

/// `doctor` has found a mistake.
pub(crate) const FOUND: u8 = 1;
/// The arguments make no sense.
pub(crate) const USAGE: u8 = 64;
/// No majority of servers can be used.
pub(crate) const UNAVAILABLE: u8 = 69;
/// Something failed that is neither the servers' fault nor the caller's.
pub(crate) const INTERNAL: u8 = 70;
/// The output could not be written.
pub(crate) const OUTPUT: u8 = 74;
/// Another client has the lock.
#[cfg(unix)]
pub(crate) const HELD: u8 = 75;
/// The lock was lost, or its time was up, and the command was ended.
#[cfg(unix)]
pub(crate) const LOST: u8 = 76;
/// The node set is described wrongly, or the servers refuse access.
pub(crate) const CONFIG: u8 = 78;

/// All of them, as the help has them.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0        success, also of `break` if there is nothing to delete; of `run`, that of the command
  1        `doctor` has found a mistake
  64       wrong arguments, or `break` was not confirmed
  69       no majority of servers can be used
  70       an internal error, such as a process that could not be started
  74       the output could not be written
  75       the lock is held by another client; another code by `run --held-exit-code`
  76       the lock was lost or its time was up, and the command was ended
  78       wrong configuration, or no access to the servers
  126      the command cannot be run
  127      the command was not found
  128 + n  the command, or `redlock` while it waited for the lock, was ended by signal n";

/// The exit code of a command that has failed, and what there is to say.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) u8, pub(crate) String);

impl Failure {
    pub(crate) fn new(code: u8, text: impl Display) -> Self {
        Self(code, text.to_string())
    }

    /// Says it.
    fn code(self) -> u8 {
        if !self.1.is_empty() {
            remark(&self.1);
        }
        self.0
    }
}

/// The exit code if no majority of `count` servers can be used, by why they cannot: whether there would be
/// one if they let the user in.
pub(crate) fn unusable<'a>(count: usize, why: impl Iterator<Item = &'a Why>) -> u8 {
    match 2 * why.filter(|why| why.kind == WhyKind::Denied).count() >= count {
        true => CONFIG,
        false => UNAVAILABLE,
    }
}

/// Whether a line of output is lost.
static IS_INCOMPLETE: AtomicBool = AtomicBool::new(false);

/// The exit code of a command that ends like this.
pub(crate) fn code(done: Result<u8, Failure>) -> u8 {
    match done {
        Ok(0) if IS_INCOMPLETE.load(Relaxed) => {
            Failure::new(OUTPUT, "the output could not be written").code()
        }
        Ok(code) => code,
        Err(failure) => failure.code(),
    }
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

/// `1 node`, `2 nodes`
pub(crate) fn counted(count: usize, name: &str) -> String {
    match count {
        1 => format!("1 {name}"),
        _ => format!("{count} {name}s"),
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

/// What is wrong with the lock.
#[cfg(unix)]
pub(crate) fn lock_in_words(error: &LockError) -> String {
    match error {
        LockError::Config(error) => in_words(error),
        LockError::Quarantined(_) => {
            format!("{}; to wait for it, use `--wait`", error.fact())
        }
        _ if error.is_short_of_time() => format!(
            "{}; to hold it for longer, use a longer `--expire` or `--max-hold`",
            error.fact()
        ),
        _ => error.fact(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_the_exit_codes_of_the_help() {
        let page = include_str!("../README.md");
        let (_, page) = page.split_once("## Exit codes").unwrap();
        let rows = page
            .lines()
            .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
        let rows: Vec<_> = rows
            .skip(1)
            .map(|row| row.split_once(" | ").unwrap())
            .collect();
        let lines = EXIT_CODES
            .lines()
            .skip(1)
            .map(|line| line.trim().split_once("  ").unwrap());
        let lines: Vec<_> = lines
            .map(|(code, meaning)| (code, meaning.trim_start()))
            .collect();
        assert_eq!(rows, lines);
        let known = [
            FOUND,
            USAGE,
            UNAVAILABLE,
            INTERNAL,
            OUTPUT,
            HELD,
            LOST,
            CONFIG,
        ];
        for code in known.map(|code| code.to_string()) {
            assert!(lines.iter().any(|(listed, _)| *listed == code), "{code}");
        }
    }
}
