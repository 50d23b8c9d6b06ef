//! The names of arguments, and what users write for them.

use proc_macro2::Ident;
use syn::Error;

use crate::suggest;

/// Every argument there is, with an example, and with the words of other libraries for the same
/// value. `_` and capitals make no difference.
pub(crate) const ARGUMENTS: [(&str, &str, &str); 18] = [
    ("key", "key = \"order:{id}\"", "resource lockname lockkey"),
    (
        "expire",
        "expire = 5s",
        "ttl expiry expiration duration leasetime leaseduration leasetimeout lockatmostfor locktimeout",
    ),
    (
        "wait",
        "wait = 2s",
        "timeout waittime maxwait maxwaittime waitfor acquiretimeout blockingtimeout",
    ),
    (
        "renew",
        "renew = 1s",
        "autorenew autoextend extend watchdog heartbeat keepalive refresh",
    ),
    ("max_hold", "max_hold = 1m", "hold maxduration"),
    (
        "at_least",
        "at_least = 5s",
        "lockatleastfor minhold cooldown",
    ),
    ("shared", "shared", "read reader readlock"),
    (
        "permits",
        "permits = 3",
        "permit semaphore slots limit concurrency maxconcurrency",
    ),
    ("reentrant", "reentrant", "recursive"),
    ("fair", "fair", "fairness fifo"),
    (
        "leader",
        "leader",
        "election elect leadership leaderelection",
    ),
    ("value", "value = address", "metadata announce"),
    ("lease", "lease = lease", "guard"),
    ("name", "name = \"orders\"", "label"),
    (
        "when_held",
        "when_held = Ok(())",
        "ifheld onheld whenlocked iflocked onlocked",
    ),
    (
        "on_error",
        "on_error = |error| Err(error.into())",
        "maperr orelse fallback",
    ),
    (
        "via",
        "via = self.redlock",
        "redlock client redis pool manager with using",
    ),
    ("crate", "crate = ::redlock_runtime", "runtime"),
];

/// What the attribute does not have, and what to do instead.
const ELSEWHERE: [(&str, &str); 4] = [
    (
        "nodes url urls prefix keyprefix namespace nodetimeout connecttimeout maxlease drift quorum",
        "what holds for all locks is set at `Redlock::builder()`",
    ),
    (
        "retry retries tries attempts retrydelay retryinterval retrycount backoff jitter",
        "`wait` says how long to try",
    ),
    (
        "trylock try nowait once blocking",
        "without `wait` there is one attempt",
    ),
    (
        "write writelock writer exclusive",
        "every lock that is not `shared` is exclusive",
    ),
];

/// The mistake of a name that is none, and the name that was meant. `value` is what is given to it.
pub(super) fn unknown(
    place: &Ident,
    text: &str,
    value: &str,
    arguments: &[String],
    is_given: impl Fn(&str) -> bool,
) -> (Error, Option<&'static str>) {
    let folded = text.to_lowercase().replace(['_', '-'], "");
    let has = |words: &str| words.split(' ').any(|word| word == folded);
    let elsewhere = ELSEWHERE.iter().find(|(words, _)| has(words));
    let millis = ["millis", "msecs", "ms"];
    let in_millis = millis.iter().find_map(|unit| folded.strip_suffix(unit));
    let meant = match (elsewhere, in_millis) {
        (Some(_), _) => None,
        (None, Some(name)) => meant(name).or_else(|| meant(&folded)),
        (None, None) => meant(text).or_else(|| meant(&folded)),
    };
    let meant = meant.filter(|known| !is_given(known));
    let is_count = !value.is_empty() && value.chars().all(|c| c.is_ascii_digit() || c == '_');
    let remedy = match (elsewhere, meant) {
        (Some((_, remedy)), _) => remedy.to_string(),
        (None, _) if value.is_empty() && arguments.iter().any(|name| name == text) => {
            format!("for the value of that argument in the key, write `{{{text}}}` there")
        }
        _ if text == "keys" => SEVERAL_KEYS.to_owned(),
        (None, Some(known)) if in_millis.is_some() && is_count => {
            format!("a duration has its unit: `{known} = {value}ms`")
        }
        (None, Some(known)) => format!("did you mean `{known}`?"),
        (None, None) => {
            let names = ARGUMENTS.map(|(known, ..)| known);
            format!("the arguments are {}", suggest::list(names))
        }
    };
    let message = format!("unknown argument `{text}`; {remedy}");
    (Error::new(place.span(), message), meant)
}

fn meant(text: &str) -> Option<&'static str> {
    let text = text.to_lowercase();
    let is = |(_, _, words): &&(&str, &str, &str)| words.split(' ').any(|word| word == text);
    let synonym = ARGUMENTS.iter().find(is).map(|(known, ..)| *known);
    synonym.or_else(|| suggest::closest(&text, ARGUMENTS.map(|(known, ..)| known)))
}

pub(super) const SEVERAL_KEYS: &str = "several keys, of which all or none are locked, are a list: \
                                       `key = [\"a\", \"b\"]`";
