//! The texts of the scripts, and how a command names one.

use std::sync::LazyLock;

use super::word::{
    Command, Word,
    Word::{Number, Text},
    words,
};

/// The script that consists of these files.
macro_rules! source {
    ($($file:literal),+) => {
        LazyLock::new(|| Source::new(concat!($(include_str!($file)),+)))
    };
}

pub(super) static ACQUIRE: LazyLock<Source> = source!(
    "wall_clock.lua",
    "vote.lua",
    "acquire.lua",
    "readers.lua",
    "held.lua",
    "voted.lua"
);
pub(super) static ACQUIRE_SHARED: LazyLock<Source> = source!(
    "wall_clock.lua",
    "vote.lua",
    "now.lua",
    "readers.lua",
    "reader.lua",
    "acquire_shared.lua",
    "held.lua",
    "voted.lua"
);
/// Of both modes.
pub(super) static ACQUIRE_IN_ORDER: LazyLock<Source> = source!(
    "wall_clock.lua",
    "vote.lua",
    "now.lua",
    "readers.lua",
    "reader.lua",
    "places.lua",
    "queue.lua",
    "held.lua",
    "voted.lua"
);
pub(super) static STAND: LazyLock<Source> = source!("now.lua", "places.lua", "stand.lua");
pub(super) static EXTEND: LazyLock<Source> =
    source!("reported.lua", "vote.lua", "extend.lua", "voted.lua");
pub(super) static EXTEND_SHARED: LazyLock<Source> = source!(
    "reported.lua",
    "vote.lua",
    "now.lua",
    "readers.lua",
    "reader.lua",
    "extend_shared.lua",
    "voted.lua"
);
pub(super) static PUT_BACK: LazyLock<Source> = source!(
    "reported.lua",
    "vote.lua",
    "put_back.lua",
    "readers.lua",
    "held.lua",
    "voted.lua"
);
pub(super) static PUT_BACK_SHARED: LazyLock<Source> = source!(
    "reported.lua",
    "vote.lua",
    "now.lua",
    "readers.lua",
    "reader.lua",
    "put_back_shared.lua",
    "held.lua",
    "voted.lua"
);
pub(super) static RELEASE: LazyLock<Source> = source!("leave.lua", "release.lua");
pub(super) static RELEASE_SHARED: LazyLock<Source> = source!(
    "leave.lua",
    "now.lua",
    "readers.lua",
    "reader.lua",
    "release_shared.lua"
);
pub(super) static PROBE: LazyLock<Source> = source!("record.lua", "probe.lua");
pub(super) static REPORT_LOSS: LazyLock<Source> = source!("record.lua", "report_loss.lua");
pub(super) static ADMIT: LazyLock<Source> = source!("record.lua", "admit.lua");
pub(super) static EXTEND_MANY: LazyLock<Source> = source!("extend_many.lua");

/// A script's text, and the digest by which a server that has it knows it.
pub(super) struct Source {
    pub(super) text: &'static str,
    sha: String,
}

impl Source {
    fn new(text: &'static str) -> Self {
        Self {
            text,
            sha: redis::Script::new(text).get_hash().to_owned(),
        }
    }
}

/// What makes a server know all scripts.
pub(crate) fn load_all() -> Vec<Command<'static>> {
    let scripts = [
        &ACQUIRE,
        &ACQUIRE_SHARED,
        &ACQUIRE_IN_ORDER,
        &STAND,
        &EXTEND,
        &EXTEND_SHARED,
        &PUT_BACK,
        &PUT_BACK_SHARED,
        &RELEASE,
        &RELEASE_SHARED,
        &PROBE,
        &REPORT_LOSS,
        &ADMIT,
        &EXTEND_MANY,
    ];
    let load = |script: &'static LazyLock<Source>| words(["SCRIPT", "LOAD", script.text]);
    scripts.map(load).into()
}

/// The number of words in the longest command.
const MOST_WORDS: usize = 18;

pub(super) fn run<'a>(
    script: &'static Source,
    with_source: bool,
    keys: &[Word<'a>],
) -> Command<'a> {
    let (name, script) = match with_source {
        true => ("EVAL", script.text),
        false => ("EVALSHA", &script.sha[..]),
    };
    let mut command = Vec::with_capacity(MOST_WORDS);
    command.extend([Text(name), Text(script), Number(keys.len() as u64)]);
    command.extend_from_slice(keys);
    command
}
