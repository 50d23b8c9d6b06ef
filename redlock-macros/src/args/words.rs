//! The names of arguments, and what users write for them.

use proc_macro2::Ident;
use syn::Error;
use syn::ext::IdentExt;

use crate::suggest;

/// Every argument there is, with an example.
pub(crate) const ARGUMENTS: [(&str, &str); 12] = [
    ("key", "key = \"order:{id}\""),
    ("expire", "expire = 5s"),
    ("wait", "wait = 2s"),
    ("renew", "renew = 1s"),
    ("max_hold", "max_hold = 1m"),
    ("reentrant", "reentrant"),
    ("lease", "lease = lease"),
    ("name", "name = \"orders\""),
    ("when_held", "when_held = Ok(())"),
    ("on_error", "on_error = |error| Err(error.into())"),
    ("via", "via = self.redlock"),
    ("crate", "crate = ::redlock_runtime"),
];

/// Words that other lock libraries use, and ours for the same.
pub(super) const SYNONYMS: [(&str, &[&str]); 11] = [
    (
        "key",
        &["id", "resource", "lock", "lock_name", "lock_key", "format"],
    ),
    (
        "expire",
        &[
            "duration",
            "expiry",
            "expires_in",
            "ttl",
            "px",
            "ex",
            "lease_time",
            "lock_timeout",
        ],
    ),
    (
        "wait",
        &[
            "retry",
            "retries",
            "retry_delay",
            "attempts",
            "timeout",
            "acquire_timeout",
            "max_wait",
            "deadline",
            "block",
            "blocking",
        ],
    ),
    (
        "renew",
        &[
            "extend",
            "watchdog",
            "heartbeat",
            "keep_alive",
            "auto_renew",
            "auto_extend",
            "refresh",
        ],
    ),
    ("max_hold", &["max_lease", "max_duration", "max_time"]),
    ("reentrant", &["re_entrant", "recursive", "nested", "join"]),
    (
        "lease",
        &["guard", "token", "fence", "fencing_token", "bind", "as"],
    ),
    ("name", &["label"]),
    (
        "when_held",
        &[
            "held",
            "if_held",
            "on_held",
            "when_busy",
            "if_busy",
            "skip",
            "default",
            "else",
        ],
    ),
    (
        "on_error",
        &["map_err", "or_else", "on_failure", "fallback", "error"],
    ),
    (
        "via",
        &["redlock", "client", "pool", "connection", "manager", "with"],
    ),
];

/// The mistake of a name that is none, and the name that was meant. `is_value`: nothing follows it.
pub(super) fn unknown(
    name: &Ident,
    is_value: bool,
    is_given: impl Fn(&str) -> bool,
) -> (Error, Option<&'static str>) {
    let text = name.unraw().to_string();
    let meant = meant(&text).filter(|known| !is_given(known));
    let message = match meant {
        None if is_value && is_given("key") => {
            format!("unknown argument `{text}`; for its value in the key, write `{{{text}}}` there")
        }
        _ if text == "keys" => several_keys("`keys` is not an argument"),
        Some(known) => format!("unknown argument `{text}`; did you mean `{known}`?"),
        None => format!(
            "unknown argument `{text}`; the arguments are {}",
            suggest::list(ARGUMENTS.map(|(known, _)| known))
        ),
    };
    (Error::new(name.span(), message), meant)
}

fn meant(text: &str) -> Option<&'static str> {
    let text = text.to_lowercase();
    let has = |words: &[&str]| words.contains(&text.as_str());
    let synonym = SYNONYMS.iter().find(|(_, words)| has(words));
    let synonym = synonym.map(|(known, _)| *known);
    synonym.or_else(|| suggest::closest(&text, ARGUMENTS.map(|(known, _)| known)))
}

pub(super) fn several_keys(problem: &str) -> String {
    format!(
        "{problem}; an attribute locks one key: for a second lock, put a second `#[redis_lock(..)]` \
         on the function"
    )
}
