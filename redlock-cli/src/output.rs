//! How the program ends.

use std::{
    fmt::Display,
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use redlock_runtime::{ConfigError, ConfigProblem, NODES_VARIABLE, ProblemKind, WhyKind};

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

/// All of them, as the page has them.
pub(crate) fn exit_codes() -> String {
    let page = include_str!("../README.md");
    let (_, table) = page
        .split_once("| code | meaning |\n|---|---|\n")
        .unwrap_or_default();
    let rows = table
        .lines()
        .map_while(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let codes = rows.filter_map(|row| row.split_once(" | "));
    let codes = codes.map(|(code, meaning)| format!("\n  {code:<8} {meaning}"));
    "Exit codes:".to_owned() + &codes.collect::<String>()
}

/// The exit code of a command that has failed, and what there is to say.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) u8, pub(crate) String);

/// The exit code if no majority of `count` servers can be used, by why they cannot: whether there would be
/// one if they let the user in.
pub(crate) fn unusable(count: usize, why: impl Iterator<Item = WhyKind>) -> u8 {
    match 2 * why.filter(|why| *why == WhyKind::Denied).count() >= count {
        true => CONFIG,
        false => UNAVAILABLE,
    }
}

/// Whether a line of output is lost.
static IS_INCOMPLETE: AtomicBool = AtomicBool::new(false);

/// The exit code of a command that ends like this. Says what there is to say.
pub(crate) fn code(done: Result<u8, Failure>) -> u8 {
    let (code, text) = match done {
        Ok(0) if IS_INCOMPLETE.load(Relaxed) => (OUTPUT, "the output could not be written".into()),
        Ok(code) => (code, String::new()),
        Err(Failure(code, text)) => (code, text),
    };
    if !text.is_empty() {
        remark(&text);
    }
    code
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_every_exit_code() {
        let help = exit_codes();
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
        for code in known {
            assert!(help.contains(&format!("\n  {code:<8} ")), "{code}: {help}");
        }
    }
}
