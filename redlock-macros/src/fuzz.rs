//! Random arguments and keys: whatever is typed, the attribute answers, without a panic and in no
//! time. `REDLOCK_FUZZ_INPUTS` and `REDLOCK_FUZZ_SEED` make more and other ones.

use std::{env, str::FromStr};

use proc_macro2::{Literal, TokenStream};
use quote::quote;

use crate::{duration, expand};

/// What mistakes are made of.
const ARGUMENTS: &[&str] = &[
    "key",
    "expire",
    "wait",
    "renew",
    "max_hold",
    "at_least",
    "shared",
    "reentrant",
    "fair",
    "leader",
    "value",
    "permits",
    "lease",
    "name",
    "when_held",
    "on_error",
    "via",
    "crate",
    "keys",
    "EXPIRE",
    "kye",
    "=",
    "=",
    "=",
    "=",
    ",",
    ",",
    ",",
    ",",
    ";",
    ":",
    "=>",
    "==",
    "5s",
    "500ms",
    "1m30s",
    "1.5",
    ".5s",
    "-",
    "+",
    "*",
    "5 * 60",
    "1e3",
    "0x5",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "\"order\"",
    "\"{id}\"",
    "\"order:{}\"",
    "\"5 eons\"",
    "b\"k\"",
    "'5'",
    "r\"{o.id}\"",
    "id",
    "|error|",
    "Ok(())",
    "self",
    ".",
    "..",
    "::",
    "&",
    "!",
    "?",
    "#",
    "format!",
    "LEASE",
    "Duration::from_secs",
    "<",
    ">",
    "return",
    "async",
    "_",
    "'a",
    "/",
    "$",
];

const KEYS: &[&str] = &[
    "{",
    "}",
    "{",
    "}",
    "{{",
    "}}",
    "id",
    "o",
    "o.id",
    ".",
    "()",
    ".await",
    "self",
    "r#type",
    "type",
    "!raw",
    "!",
    ":",
    ":?",
    ":>5",
    ":>w$",
    "$",
    "0",
    "1",
    ".0",
    "é",
    "%",
    "-",
    " ",
    "_",
    "::",
    "a b",
    "stringify!(a)",
    "SHARD",
    "\\",
    "\n",
    "\"",
    ".*",
    "#",
    "?",
    "(",
    ")",
    "²",
    "🔒",
];

const DURATIONS: &[&str] = &[
    "0",
    "1",
    "5",
    "9",
    "60",
    "0x",
    "0b",
    "_",
    ".",
    "e",
    "E",
    "e3",
    "e-",
    "ever",
    "s",
    "ms",
    "m",
    "h",
    "sec",
    " ",
    "min",
    "d",
    "us",
    "µs",
    "u64",
    "+",
    "-",
    "*",
    "(",
    ")",
    "Duration::from_secs",
    "99999999999999999999",
    "\"",
    "'",
    "é",
    "F",
    "::",
];

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % limit as u64).unwrap()
    }

    fn text(&mut self, fragments: &[&str], between: &str) -> String {
        let count = 1 + self.below(12);
        let pick = |_| fragments[self.below(fragments.len())];
        (0..count).map(pick).collect::<Vec<_>>().join(between)
    }
}

/// Says what was tried when something panics.
struct Tried<'a>(&'a str);

impl Drop for Tried<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("tried {:?}", self.0);
        }
    }
}

fn setting<T: FromStr>(name: &str, default: T) -> T {
    let set = env::var(name).ok();
    set.and_then(|it| it.parse().ok()).unwrap_or(default)
}

fn fuzz(fragments: &[&str], between: &str, mut attempt: impl FnMut(&str)) {
    let mut random = Random(setting("REDLOCK_FUZZ_SEED", 1));
    for _ in 0..setting("REDLOCK_FUZZ_INPUTS", 3_000) {
        let text = random.text(fragments, between);
        let _tried = Tried(&text);
        attempt(&text);
    }
}

fn expand(arguments: TokenStream) {
    let item = quote!(
        async fn pay(&self, id: u64, o: &Order, r#type: u8) -> Result<(), E> {
            Ok(())
        }
    );
    assert!(!expand::redis_lock(arguments, item).is_empty());
}

#[test]
fn arguments() {
    let mut lexed = 0;
    fuzz(ARGUMENTS, " ", |text| {
        if let Ok(arguments) = text.parse() {
            lexed += 1;
            expand(arguments);
        }
    });
    assert!(lexed > 100, "only {lexed} have tokens");
}

#[test]
fn keys() {
    fuzz(KEYS, "", |text| {
        let key = Literal::string(text);
        expand(quote!(key = #key));
    });
}

/// Also those that do not lex: rustc reports them, and hands them on.
#[test]
fn durations() {
    fuzz(DURATIONS, "", duration::tests::assert_remedy_is_accepted);
}

/// In place of a literal key of some thousand placeholders, and of nesting that no one writes.
#[test]
fn long_ones() {
    let key = Literal::string(&"{id}:{o.id!raw}-".repeat(2_000));
    expand(quote!(key = #key));
    let sum = "1s + ".repeat(2_000) + "1s";
    expand(format!("key = \"k\", expire = {sum}").parse().unwrap());
    let nested = "(".repeat(100) + "5s" + &")".repeat(100);
    expand(format!("key = \"k\", expire = {nested}").parse().unwrap());
}
