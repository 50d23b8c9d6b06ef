//! The names of arguments, and which of them is meant by another word.

use proc_macro2::Ident;
use syn::Error;

use crate::suggest;

/// Every argument there is, with an example.
pub(crate) const ARGUMENTS: [(&str, &str); 19] = [
    ("key", "key = \"order:{id}\""),
    ("expire", "expire = 5s"),
    ("wait", "wait = 2s"),
    ("renew", "renew = 1s"),
    ("max_hold", "max_hold = 1m"),
    ("at_least", "at_least = 5s"),
    ("shared", "shared"),
    ("permits", "permits = 3"),
    ("weight", "weight = 2"),
    ("reentrant", "reentrant"),
    ("fair", "fair"),
    ("leader", "leader"),
    ("value", "value = address"),
    ("lease", "lease = lease"),
    ("name", "name = \"orders\""),
    ("when_held", "when_held = Ok(())"),
    ("on_error", "on_error = |error| Err(error.into())"),
    ("via", "via = self.redlock"),
    ("crate", "crate = ::redlock_runtime"),
];

/// What most other libraries call it.
pub(super) const ELSEWHERE: [(&str, &str); 6] = [
    ("ttl", "expire"),
    ("timeout", "wait"),
    ("watchdog", "renew"),
    ("read", "shared"),
    ("semaphore", "permits"),
    ("client", "via"),
];

/// The mistake, and the argument that is meant.
pub(super) fn unknown(
    place: &Ident,
    text: &str,
    is_given: impl Fn(&str) -> bool,
) -> (Error, Option<&'static str>) {
    let names = ARGUMENTS.map(|(known, _)| known);
    let folded = text.to_lowercase();
    let elsewhere = ELSEWHERE.iter().find(|(word, _)| *word == folded);
    let meant = elsewhere.map(|(_, known)| *known);
    let meant = meant.or_else(|| suggest::closest(&folded, names));
    let meant = meant.filter(|known| !is_given(known));
    let remedy = match meant {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("the arguments are {}", suggest::list(names)),
    };
    let message = format!("unknown argument `{text}`; {remedy}");
    (Error::new(place.span(), message), meant)
}
