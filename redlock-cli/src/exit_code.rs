//! How the program ends.

use redlock_runtime::WhyKind;

use crate::output;

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

/// The exit code of a command that ends like this. Says what there is to say.
pub(crate) fn code(done: Result<u8, Failure>) -> u8 {
    let (code, text) = match done {
        Ok(0) if output::is_incomplete() => (OUTPUT, "the output could not be written".into()),
        Ok(code) => (code, String::new()),
        Err(Failure(code, text)) => (code, text),
    };
    if !text.is_empty() {
        output::remark(&text);
    }
    code
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
