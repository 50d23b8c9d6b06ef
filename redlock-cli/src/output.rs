//! How the program ends.

use std::{
    fmt::Display,
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

#[cfg(unix)]
use redlock_runtime::LockError;
use redlock_runtime::{__tool::is_denial, ConfigError};

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

/// The exit code if no majority of `count` servers can be used, by the reasons of those that cannot: whether
/// there would be one if they let the user in.
pub(crate) fn unusable<'a>(count: usize, reasons: impl Iterator<Item = &'a str>) -> u8 {
    match 2 * reasons.filter(|reason| is_denial(reason)).count() >= count {
        true => CONFIG,
        false => UNAVAILABLE,
    }
}

/// Whether a line of output is lost.
static IS_INCOMPLETE: AtomicBool = AtomicBool::new(false);

/// The exit code of a command that would end with this one.
pub(crate) fn code(code: u8) -> u8 {
    match IS_INCOMPLETE.load(Relaxed) && code == 0 {
        true => fail(OUTPUT, &"the output could not be written"),
        false => code,
    }
}

/// Says what is wrong, and how the program ends.
pub(crate) fn fail(code: u8, error: &dyn Display) -> u8 {
    remark(error);
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

/// `1 node`, `2 nodes`
pub(crate) fn counted(count: usize, name: &str) -> String {
    match count {
        1 => format!("1 {name}"),
        _ => format!("{count} {name}s"),
    }
}

/// What is wrong with the configuration.
pub(crate) fn in_words(error: &ConfigError) -> String {
    with_options(&error.to_string())
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
/// method for which there is no option, or advise to renew: `run` does.
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
    let clauses = text.split("; ").filter(|it| !it.contains("use `renew`"));
    let clauses: Vec<String> = clauses.filter_map(clause).collect();
    clauses.join("; ")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Args;

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
            ("too long; or use `renew` with a shorter lease", "too long"),
            (
                "`appendonly` is `yes`; name it `a(b",
                "`appendonly` is `yes`; name it `a(b",
            ),
        ] {
            assert_eq!(with_options(text), expected);
        }
    }
}
