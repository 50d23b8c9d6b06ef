//! How the program ends.

use std::{
    fmt::Display,
    io::{self, Write},
};

use redlock_runtime::ConfigError;
#[cfg(unix)]
use redlock_runtime::LockError;

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

/// What is wrong with the configuration.
pub(crate) fn in_words(error: &ConfigError) -> String {
    let problems = error.problems().iter();
    let problems = problems.map(|problem| with_options(&problem.to_string()));
    problems.collect::<Vec<_>>().join("; ")
}

/// What is wrong with the lock.
#[cfg(unix)]
pub(crate) fn lock_in_words(error: &LockError) -> String {
    if let LockError::Config(error) = error {
        return in_words(error);
    }
    let text = error.to_string();
    match text.split_once("; ") {
        // The key comes first, which may be called like an option.
        Some((fact, remedies)) => [fact, &with_options(remedies)].join("; "),
        None => text,
    }
}

/// The arguments and methods of the library that are options here. Others of its words are called like an
/// option and mean something else: `key` is a parameter of URLs.
const SETTINGS: [&str; 14] = [
    "at_least",
    "connect_timeout",
    "expire",
    "fair",
    "guard_band",
    "key_prefix",
    "max_hold",
    "max_lease",
    "nodes",
    "permits",
    "renew",
    "service",
    "shared",
    "wait",
];

/// A text of the library with the names of this program's options in it, and without the clauses that name a
/// method for which there is no option.
fn with_options(text: &str) -> String {
    let clause = |clause: &str| {
        let mut parts: Vec<String> = clause.split('`').map(str::to_owned).collect();
        for code in parts.iter_mut().skip(1).step_by(2) {
            let name = code.split('(').next().unwrap_or_default();
            if SETTINGS.contains(&name) {
                *code = format!("--{}", name.replace('_', "-"));
            } else if code.ends_with(')') {
                return None;
            }
        }
        Some(parts.join("`"))
    };
    let clauses: Vec<String> = text.split("; ").filter_map(clause).collect();
    clauses.join("; ")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Args;

    #[test]
    #[cfg(unix)]
    fn each_setting_is_an_option() {
        let program = Args::command();
        let run = program.find_subcommand("run").unwrap();
        let options = program.get_arguments().chain(run.get_arguments());
        let options: Vec<_> = options.filter_map(|option| option.get_long()).collect();
        for setting in SETTINGS {
            let option = setting.replace('_', "-");
            assert!(options.contains(&&*option), "{option}");
        }
    }

    #[test]
    fn what_the_library_calls_its_own_is_called_as_here_or_left_out() {
        for (text, expected) in [
            ("`max_hold` needs `renew`", "`--max-hold` needs `--renew`"),
            (
                "none; name some with `nodes([...])`",
                "none; name some with `--nodes`",
            ),
            (
                "none; set `require_quorum(false)`; or wait",
                "none; or wait",
            ),
            (
                "`appendonly` is `yes`; name it `a(b",
                "`appendonly` is `yes`; name it `a(b",
            ),
        ] {
            assert_eq!(with_options(text), expected);
        }
    }
}
