//! What the arguments must be to each other and to the function.

use proc_macro2::Span;
use syn::ext::IdentExt;

use crate::args::{Args, Renew, WEIGHT};
use crate::duration::Known;
use crate::function::Function;
use crate::given::Given;
use crate::key::{Ambiguity, Kind, Template};
use crate::mistakes::Mistakes;
use crate::suggest;

const SEVERAL_KEYS: &str = "several keys";

/// What cannot be combined, as in the runtime.
const EXCLUDED: [(&str, &str); 20] = [
    ("shared", SEVERAL_KEYS),
    ("permits", SEVERAL_KEYS),
    ("weight", SEVERAL_KEYS),
    ("fair", SEVERAL_KEYS),
    ("at_least", SEVERAL_KEYS),
    ("at_least", "shared"),
    ("at_least", "reentrant"),
    ("at_least", "weight"),
    ("permits", "shared"),
    ("fair", "shared"),
    ("fair", "permits"),
    ("value", "shared"),
    ("leader", SEVERAL_KEYS),
    ("leader", "wait"),
    ("leader", "at_least"),
    ("leader", "shared"),
    ("leader", "permits"),
    ("leader", "reentrant"),
    // It is fair without the word.
    ("leader", "fair"),
    // It waits until it leads.
    ("leader", "when_held"),
];

pub(crate) fn arguments(args: &Args, mistakes: &mut Mistakes) {
    if !args.intended("key") {
        let message = "missing argument `key`; it names what is locked: `key = \"..\"`";
        mistakes.add_at(Span::call_site(), message);
    }
    if let Some(span) = args.given("max_hold")
        && !args.intended("renew")
        && !args.intended("leader")
    {
        let message = "`max_hold` has no effect without `renew`; \
                       the lease already ends after `expire`";
        mistakes.add_at(span, message);
    }
    if let Some(span) = args.given("weight") {
        if !args.intended("permits") && !args.has_several_keys() {
            let message = "`weight` says how many of the `permits` a call takes; add `permits`";
            mistakes.add_at(span, message);
        }
        if let Some((permits, weight)) = args.permits.as_ref().zip(args.weight.as_ref()) {
            check_weight(permits, weight, span, mistakes);
        }
    }
    for key in args.keys.iter().flatten() {
        if let Kind::Permits(member) = &key.kind {
            let (permits, weight) = &**member;
            check_weight(permits, weight, key.span(), mistakes);
        }
    }
    for (name, other) in EXCLUDED {
        let (is_given, other) = match other {
            SEVERAL_KEYS => (args.has_several_keys(), other.to_owned()),
            other => (args.given(other).is_some(), format!("`{other}`")),
        };
        if let Some(span) = args.given(name).filter(|_| is_given) {
            let remedy = match (name, other.as_str()) {
                ("shared", SEVERAL_KEYS) => r#"write `shared("..")` in the list"#,
                ("permits", SEVERAL_KEYS) => r#"write `permits("..", 3)` in the list"#,
                ("weight", SEVERAL_KEYS) => r#"write `permits("..", 3, weight = 2)` in the list"#,
                _ => "leave out one of the two",
            };
            let message = format!("`{name}` cannot be combined with {other}; {remedy}");
            mistakes.add_at(span, message);
        }
    }
    durations(args, mistakes);
}

fn check_weight(permits: &Given<u32>, weight: &Given<u32>, span: Span, mistakes: &mut Mistakes) {
    let known = weight.known().zip(permits.known());
    if known.is_some_and(|(weight, permits)| weight > permits) {
        mistakes.add_at(span, WEIGHT);
    }
}

/// The least number of milliseconds between two renewals, as in the runtime.
const SHORTEST_RENEWAL: u64 = 10;

/// The most milliseconds that the runtime's builder accepts as its `max_lease`.
const LONGEST_LEASE: u64 = 24 * 60 * 60 * 1_000;

/// What is known here; the runtime checks constants, and what the builder's defaults decide.
fn durations(args: &Args, mistakes: &mut Mistakes) {
    let expire = args.expire.as_ref().and_then(Given::known);
    let interval = args.renew.as_ref().and_then(Renew::interval);
    let interval = interval.and_then(Given::known);
    let max_hold = args.max_hold.as_ref().and_then(Given::known);
    let at_least = args.at_least.as_ref().and_then(Given::known);
    for (name, duration) in [
        ("expire", expire),
        ("renew", interval),
        ("max_hold", max_hold),
        ("at_least", at_least),
    ] {
        if let Some(Known {
            millis: 0, span, ..
        }) = duration
        {
            mistakes.add_at(*span, format!("`{name}` must be longer than zero"));
        }
    }
    if let Some(interval) = interval.filter(|it| (1..SHORTEST_RENEWAL).contains(&it.millis)) {
        let message = format!(
            "`renew` must be at least {SHORTEST_RENEWAL}ms, because each renewal asks all nodes"
        );
        mistakes.add_at(interval.span, message);
    }
    let Some(expire) = expire.filter(|expire| expire.millis > 0) else {
        return;
    };
    if expire.millis <= drift(expire.millis) {
        let message = "`expire` is shorter than the clock drift that Redlock allows for; \
                       the lock could never be held";
        mistakes.add_at(expire.span, message);
    }
    if expire.millis > LONGEST_LEASE {
        let message = "`expire` is longer than a day, which no node set allows; \
                       for long work take a short lease and `renew`";
        mistakes.add_at(expire.span, message);
    }
    if let Some(interval) = interval.filter(|interval| interval.millis >= expire.millis) {
        let message = format!(
            "`renew` must be shorter than `expire`, which is {}; the lock would expire first",
            expire.text
        );
        mistakes.add_at(interval.span, message);
    }
    if matches!(args.renew, Some(Renew::Default)) && expire.millis / 3 < SHORTEST_RENEWAL {
        let message = format!(
            "a lease that is renewed must be at least {}ms; \
             `renew` asks all nodes every third of it",
            3 * SHORTEST_RENEWAL
        );
        mistakes.add_at(expire.span, message);
    }
    if let Some(max_hold) = max_hold.filter(|hold| (1..expire.millis).contains(&hold.millis)) {
        let message = "`max_hold` is shorter than `expire`; make the lease shorter instead";
        mistakes.add_at(max_hold.span, message);
    }
    if let Some(at_least) = at_least.filter(|at_least| at_least.millis > expire.millis) {
        let message = format!(
            "`at_least` is longer than `expire`, which is {}; \
             the nodes keep the lock of a process that crashes no longer than that",
            expire.text
        );
        mistakes.add_at(at_least.span, message);
    }
}

/// What Redlock takes off a lease because the nodes' clocks may run faster: 1 % and 2 ms.
fn drift(millis: u64) -> u64 {
    millis / 100 + 2
}

pub(crate) fn names(args: &Args, function: &Function, mistakes: &mut Mistakes) {
    if let Some(span) = args.given("leader").filter(|_| function.is_blocking) {
        let message = "`leader` needs an `async fn`; \
                       nothing stops the body of a plain `fn` when the leadership is lost";
        mistakes.add_at(span, message);
    }
    let names = function.argument_names();
    for key in args.keys.iter().flatten() {
        unknown_names(key, &names, function, mistakes);
        names_as_text(key, &names, mistakes);
        separators(key, &function.variable_names(), mistakes);
    }
    if let Some(lease) = &args.lease
        && names.contains(&lease.unraw().to_string())
    {
        let message =
            format!("`lease = {lease}` hides the argument `{lease}`; choose another name");
        mistakes.add_at(lease.span(), message);
    }
}

/// Text that looks as if it named an argument: `"order:$id"`, or `"order:{{id}}"`. Not if the key has
/// the argument, too: then it is `"{{order}}:{order}"`, with a hash tag.
fn names_as_text(key: &Template, names: &[String], mistakes: &mut Mistakes) {
    let text = key.text();
    let ends_word = |at: usize| !text[at..].starts_with(unicode_ident::is_xid_continue);
    let is_used = |name: &str| key.placeholders().any(|it| it.root() == name);
    for name in names.iter().filter(|name| !is_used(name)) {
        for (before, after) in [("{", "}"), ("$", ""), ("#", ""), ("<", ">"), (":", "")] {
            let found = format!("{before}{name}{after}");
            let mut places = text.match_indices(&found);
            // `stock:sku` is text, and `/:sku` is of a route.
            let is_marked = |at: usize| before != ":" || at == 0 || text[..at].ends_with('/');
            if places.any(|(at, _)| ends_word(at + found.len()) && is_marked(at)) {
                let found = match before {
                    "{" => format!("{{{found}}}"),
                    _ => found,
                };
                let message = format!(
                    "`{found}` is text in this key, the same for all calls; \
                     write `{{{name}}}` for the value of the argument"
                );
                mistakes.add_at(key.span(), message);
            }
        }
    }
    let of_printf = ["%s", "%d"].iter().find(|it| text.contains(**it));
    if let Some(found) = of_printf.filter(|_| !names.is_empty()) {
        let message = format!(
            "`{found}` is text in this key, the same for all calls; an argument stands in braces"
        );
        mistakes.add_at(key.span(), message);
    }
}

fn separators(key: &Template, names: &[String], mistakes: &mut Mistakes) {
    for Ambiguity { written, corrected } in key.ambiguities(names) {
        let message = format!(
            "`{written}` gives the same key for different values; \
             put a separator between them: `{corrected}`"
        );
        mistakes.add_at(key.span(), message);
    }
}

/// What rustc would not find inside the literal, because it does not see that as written.
fn unknown_names(key: &Template, names: &[String], function: &Function, mistakes: &mut Mistakes) {
    let variables = function.variable_names();
    let is_rewritten = key.is_rewritten(&variables);
    for placeholder in key.placeholders() {
        // Of a trait that it does not know, rustc says which there are.
        let is_word = |spec: &&str| spec[1..].chars().all(char::is_alphanumeric);
        if let Some(spec) = placeholder.wrong_spec()
            && (is_rewritten || !is_word(&spec))
        {
            let text = &placeholder.text;
            let message = format!(
                "`{spec}` in `{text}` is no format; those of `format!` are, such as `:?` and `:05`"
            );
            mistakes.add_at(key.span(), message);
        }
        for unknown in placeholder.unknown_names(&variables) {
            let text = &placeholder.text;
            let words = || names.iter().map(String::as_str);
            let similar = suggest::closest(unknown, variables.iter().map(String::as_str));
            // rustc points into the literal, and corrects it there. If nothing is similar it may
            // propose an import, and of `self` it says that it is a module.
            if !is_rewritten && similar.is_some() && unknown != "self" {
                continue;
            }
            let remedy = match (similar, names) {
                (Some(name), _) => {
                    format!("did you mean `{}`?", text.replacen(unknown, name, 1))
                }
                (None, names) if names.iter().any(|name| name.starts_with("__arg")) => {
                    "`#[async_trait]` hides arguments that are patterns: \
                     take them apart in the body, and name them in the key"
                        .to_owned()
                }
                (None, []) => "it has none".to_owned(),
                (None, [only]) => format!("its argument is `{only}`"),
                (None, _) => format!("its arguments are {}", suggest::list(words())),
            };
            let function = &function.signature.ident;
            let message =
                format!("`{unknown}` in `{text}` is not an argument of `{function}`; {remedy}");
            mistakes.add_at(key.span(), message);
        }
    }
}

#[cfg(test)]
mod tests;
