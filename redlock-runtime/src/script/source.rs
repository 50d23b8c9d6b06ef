//! The texts of the scripts, and how a command names one.

use std::sync::LazyLock;

use super::word::{
    Command, Word,
    Word::{Number, Text},
    words,
};

/// The scripts, with the files that each consists of.
macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident = $($file:ident)+;)+) => {
        $(
            $(#[$doc])*
            pub(super) static $name: LazyLock<Source> = LazyLock::new(|| {
                Source::new(concat!($(include_str!(concat!(stringify!($file), ".lua"))),+))
            });
        )+

        /// What makes a server know all scripts.
        pub(crate) fn load_all() -> Vec<Command<'static>> {
            vec![$(words(["SCRIPT", "LOAD", $name.text])),+]
        }
    };
}

scripts! {
    ACQUIRE = wall_clock vote acquire holder held voted;
    ACQUIRE_SHARED = wall_clock vote now holder readers acquire_shared held voted;
    /// Of both modes.
    ACQUIRE_IN_ORDER = wall_clock vote now holder readers queue acquire_in_order held voted;
    STAND = now queue stand_for_permit;
    EXTEND = reported vote extend voted;
    EXTEND_SHARED = reported vote now holder readers extend_shared voted;
    PUT_BACK = reported vote put_back holder held voted;
    PUT_BACK_SHARED = reported vote now holder readers put_back_shared held voted;
    RELEASE = leave release;
    RELEASE_SHARED = leave now holder readers release_shared;
    WATCH_SHARED = now holder readers watch_shared;
    PROBE = record probe;
    REPORT_LOSS = record report_loss;
    ADMIT = record admit;
    EXTEND_MANY = extend_many;
}

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
