//! The names of arguments, and what users write for them.

use proc_macro2::Ident;
use syn::Error;
use syn::ext::IdentExt;

use crate::suggest;

/// Every argument there is, with an example.
pub(crate) const ARGUMENTS: [(&str, &str); 16] = [
    ("key", "key = \"order:{id}\""),
    ("expire", "expire = 5s"),
    ("wait", "wait = 2s"),
    ("renew", "renew = 1s"),
    ("max_hold", "max_hold = 1m"),
    ("at_least", "at_least = 5s"),
    ("shared", "shared"),
    ("permits", "permits = 3"),
    ("reentrant", "reentrant"),
    ("fair", "fair"),
    ("lease", "lease = lease"),
    ("name", "name = \"orders\""),
    ("when_held", "when_held = Ok(())"),
    ("on_error", "on_error = |error| Err(error.into())"),
    ("via", "via = self.redlock"),
    ("crate", "crate = ::redlock_runtime"),
];

/// Words that other lock libraries use, and ours for the same. `_` makes no difference.
pub(super) const SYNONYMS: [(&str, &[&str]); 16] = [
    (
        "key",
        &["id", "resource", "lock", "lock_name", "lock_key", "format"],
    ),
    (
        "expire",
        &[
            "duration",
            "expiration",
            "expiry",
            "ttl",
            "px",
            "ex",
            "lease_time",
            "lease_timeout",
            "lock_timeout",
            "lock_at_most_for",
            "max_age",
        ],
    ),
    (
        "wait",
        &[
            "retry", "retries", "tries", "attempts", "timeout", "deadline", "block", "blocking",
        ],
    ),
    (
        "renew",
        &[
            "extend",
            "renewable",
            "watchdog",
            "heartbeat",
            "keep_alive",
            "auto_renew",
            "auto_extend",
            "refresh",
        ],
    ),
    ("max_hold", &["hold", "max_duration", "max_time"]),
    (
        "shared",
        &[
            "share",
            "read",
            "reader",
            "readers",
            "read_lock",
            "read_only",
        ],
    ),
    (
        "permits",
        &[
            "permit",
            "semaphore",
            "slots",
            "holders",
            "max_holders",
            "concurrency",
            "max_concurrency",
            "limit",
        ],
    ),
    ("reentrant", &["recursive", "nested", "join"]),
    (
        "fair",
        &["fairness", "fifo", "queue", "ordered", "in_order"],
    ),
    (
        "at_least",
        &[
            "lock_at_least_for",
            "at_least_for",
            "min_hold",
            "min_time",
            "period",
            "cooldown",
        ],
    ),
    (
        "lease",
        &["guard", "token", "fence", "fencing", "bind", "as"],
    ),
    ("name", &["label", "span"]),
    (
        "when_held",
        &[
            "held",
            "busy",
            "contended",
            "locked",
            "on_conflict",
            "otherwise",
            "skip",
            "default",
            "else",
        ],
    ),
    (
        "on_error",
        &[
            "map_err",
            "or_else",
            "failure",
            "fallback",
            "error",
            "lost",
            "on_timeout",
        ],
    ),
    (
        "via",
        &[
            "redlock",
            "redis",
            "client",
            "pool",
            "connection",
            "manager",
            "with",
            "on",
            "using",
        ],
    ),
    ("crate", &["runtime"]),
];

/// Words of other lock libraries for what the attribute does not have, and what to do instead.
pub(super) const ELSEWHERE: [(&[&str], &str); 8] = [
    (
        &[
            "nodes",
            "url",
            "urls",
            "prefix",
            "key_prefix",
            "namespace",
            "guard_band",
            "node_timeout",
            "connect_timeout",
            "max_lease",
        ],
        "what holds for all locks is set at `Redlock::builder()`",
    ),
    (
        &["quorum"],
        "leave it out: it is always a majority of all nodes",
    ),
    (
        &["drift", "clock_drift", "drift_factor"],
        "leave it out: 1 % and 2 ms are always taken off the lease",
    ),
    (
        &["try_lock", "try", "no_wait", "once"],
        "leave it out: without `wait` there is one attempt",
    ),
    (
        &["no_renew"],
        "leave it out: without `renew` the lock is not renewed",
    ),
    (
        &["fair", "write", "write_lock", "exclusive"],
        "leave it out: every lock that is not `shared` is exclusive, and is served in order within a \
         process",
    ),
    (
        &["owner", "value", "random"],
        "leave it out: each acquisition makes a random value of its own",
    ),
    (
        &["jitter", "backoff", "retry_delay", "retry_interval"],
        "leave it out: the pauses between attempts are the library's own, \
         and `wait = 2s` says how long to try",
    ),
];

/// The mistake of a name that is none, and the name that was meant. `is_value`: nothing follows it.
pub(super) fn unknown(
    name: &Ident,
    is_value: bool,
    is_given: impl Fn(&str) -> bool,
) -> (Error, Option<&'static str>) {
    let text = name.unraw().to_string();
    let folded = folded(&text);
    let elsewhere = ELSEWHERE
        .iter()
        .find(|(words, _)| words.iter().any(|word| self::folded(word) == folded));
    let meant = match elsewhere {
        Some(_) => None,
        None => meant(&text).filter(|known| !is_given(known)),
    };
    let message = match (elsewhere, meant) {
        (Some((_, remedy)), _) => format!("unknown argument `{text}`; {remedy}"),
        (None, None) if is_value && is_given("key") => {
            format!("unknown argument `{text}`; for its value in the key, write `{{{text}}}` there")
        }
        _ if text == "keys" => several_keys("`keys` is not an argument"),
        (None, Some(known)) => {
            let is_spelling = spelt(&text) == Some(known);
            let example = ARGUMENTS.iter().find(|(name, _)| *name == known);
            // Another word may have taken another kind of value. `renew` needs none.
            let meant = match example {
                Some((_, example)) if !is_spelling && known != "renew" => example,
                _ => known,
            };
            format!("unknown argument `{text}`; did you mean `{meant}`?")
        }
        (None, None) => format!(
            "unknown argument `{text}`; the arguments are {}",
            suggest::list(ARGUMENTS.map(|(known, _)| known))
        ),
    };
    (Error::new(name.span(), message), meant)
}

/// As a whole, or else by its last word that means something: `max_wait_time`, `leaseDuration`.
fn meant(text: &str) -> Option<&'static str> {
    as_one_word(text).or_else(|| {
        let starts_word = |(at, c): (usize, char)| (c == '_' || c.is_uppercase()).then_some(at);
        let mut starts: Vec<usize> = text.char_indices().filter_map(starts_word).collect();
        starts.push(text.len());
        let words = starts.iter().scan(0, |from, to| {
            let word = text[*from..*to].trim_matches('_');
            *from = *to;
            Some(word)
        });
        let meant = words.filter(|word| word.len() > 1).filter_map(as_one_word);
        // `lock_ttl` is not about what is locked.
        meant.filter(|known| *known != "key").last()
    })
}

fn as_one_word(text: &str) -> Option<&'static str> {
    let folded = folded(text);
    let is = |word: &&str| self::folded(word) == folded;
    let synonym = SYNONYMS.iter().find(|(_, words)| words.iter().any(is));
    let synonym = synonym.map(|(known, _)| *known);
    synonym.or_else(|| spelt(text))
}

fn spelt(text: &str) -> Option<&'static str> {
    suggest::closest(&text.to_lowercase(), ARGUMENTS.map(|(known, _)| known))
}

fn folded(word: &str) -> String {
    word.to_lowercase().replace('_', "")
}

pub(super) fn several_keys(problem: &str) -> String {
    format!(
        "{problem}; for several keys, of which all or none are locked, \
         write `key = [\"order:{{id}}\", \"stock\"]`"
    )
}
