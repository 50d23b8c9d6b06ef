//! How the program ends.

use std::{
    fmt::Display,
    io::{self, Write},
};

use redlock_runtime::{ConfigError, ConfigProblem};

/// `doctor` has found a mistake.
pub(crate) const FOUND: u8 = 1;
/// The arguments make no sense.
pub(crate) const USAGE: u8 = 64;
/// No majority of servers can be used.
pub(crate) const UNAVAILABLE: u8 = 69;
/// Something failed that is neither the servers' fault nor the caller's.
pub(crate) const INTERNAL: u8 = 70;
/// Another client has the lock.
#[cfg(unix)]
pub(crate) const HELD: u8 = 75;
/// The lock was lost, or its time was up, and the command was ended.
#[cfg(unix)]
pub(crate) const LOST: u8 = 76;
/// The node set is described wrongly, or the servers refuse it.
pub(crate) const CONFIG: u8 = 78;

/// Says what is wrong, and how the program ends.
pub(crate) fn fail(code: u8, error: &dyn Display) -> u8 {
    remark(error);
    code
}

/// Says something beside the output. Its reader may be gone, which changes nothing else.
pub(crate) fn remark(text: &dyn Display) {
    let _ = writeln!(io::stderr(), "redlock: {text}");
}

/// Writes a line. A reader may have seen enough, as `head` has.
pub(crate) fn line(text: &dyn Display) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// `1 node`, `2 nodes`
pub(crate) fn counted(count: usize, name: &str) -> String {
    match count {
        1 => format!("1 {name}"),
        _ => format!("{count} {name}s"),
    }
}

/// What is wrong with the node set. The remedies that the library names are methods of its builder, which this
/// program has not.
pub(crate) fn in_words(error: &ConfigError) -> String {
    let problem = |problem: &ConfigProblem| {
        match problem {
        ConfigProblem::NoNodes => {
            "no node is configured; name some with `--nodes` or in the environment variable REDLOCK_NODES"
                .to_owned()
        }
        ConfigProblem::ServersRequired { memory } => {
            format!("{memory} lives in one process only, so it excludes no other; name servers")
        }
        ConfigProblem::NoQuorum { .. } => {
            let text = problem.to_string();
            let remedy = text.rfind("; to start without").unwrap_or(text.len());
            text[..remedy].to_owned()
        }
        other => other.to_string(),
    }
    };
    let problems: Vec<String> = error.problems().iter().map(problem).collect();
    problems.join("; ")
}
