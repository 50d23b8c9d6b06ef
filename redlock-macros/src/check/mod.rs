//! What the arguments must be to each other and to the function.

use proc_macro2::{Span, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::{Error, Expr};

use crate::args::{Args, Renew};
use crate::duration::{Duration, Known};
use crate::function::Function;
use crate::key::{Ambiguity, Template};
use crate::mistakes::Mistakes;
use crate::suggest;
use crate::tokens::{for_each_ident, joined};

pub(crate) fn arguments(args: &Args, mistakes: &mut Mistakes) {
    if !args.intended("key") {
        let message = "missing argument `key`; it names what is locked: `key = \"order:{id}\"`";
        mistakes.add_at(Span::call_site(), message);
    }
    if let Some(span) = args.given("max_hold")
        && !args.intended("renew")
    {
        let message = "`max_hold` has no effect without `renew`; \
                       the lease already ends after `expire`";
        mistakes.add_at(span, message);
    }
    conflicts(args, mistakes);
    durations(args, mistakes);
}

/// What does not go together, as in the runtime.
fn conflicts(args: &Args, mistakes: &mut Mistakes) {
    const SEVERAL: &str = "several keys";
    let several = args.keys.as_ref().is_some_and(|keys| keys.len() > 1);
    for (one, other) in [
        ("at_least", SEVERAL),
        ("at_least", "`shared`"),
        ("at_least", "`permits`"),
        ("at_least", "`reentrant`"),
        ("fair", SEVERAL),
        ("fair", "`shared`"),
        ("fair", "`permits`"),
        ("permits", SEVERAL),
        ("permits", "`shared`"),
        ("shared", SEVERAL),
    ] {
        let is_given = match other {
            SEVERAL => several,
            other => args.given(other.trim_matches('`')).is_some(),
        };
        if let Some(span) = args.given(one).filter(|_| is_given) {
            let message =
                format!("`{one}` cannot be combined with {other}; leave out one of the two");
            mistakes.add_at(span, message);
        }
    }
}

/// The least number of milliseconds between two renewals, as in the runtime.
const SHORTEST_RENEWAL: u64 = 10;

/// The most milliseconds that the runtime's builder accepts as its `max_lease`.
const LONGEST_LEASE: u64 = 24 * 60 * 60 * 1_000;

/// What is known here; the runtime checks constants, and what the builder's defaults decide.
fn durations(args: &Args, mistakes: &mut Mistakes) {
    let expire = args.expire.as_ref().and_then(Duration::known);
    let interval = args.renew.as_ref().and_then(Renew::interval);
    let interval = interval.and_then(Duration::known);
    let max_hold = args.max_hold.as_ref().and_then(Duration::known);
    let at_least = args.at_least.as_ref().and_then(Duration::known);
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
    let names = function.argument_names();
    for key in args.keys.iter().flatten() {
        unknown_names(key, &names, function, mistakes);
        names_as_text(key, &names, mistakes);
        separators(key, &function.variable_names(), mistakes);
    }
    let wrong = args.durations().filter_map(|it| it.wrong_deref(&names));
    wrong.for_each(|mistake| mistakes.add(mistake));
    for (name, value) in [("when_held", &args.when_held), ("on_error", &args.on_error)] {
        if let Some(place) = value.as_ref().and_then(self_of)
            && function.moves_mutable_self()
        {
            let message = format!(
                "`self` has moved into the body where `{name}` is evaluated; \
                 take what it needs as an argument that is `Copy`, or use `&self`"
            );
            mistakes.add_at(place, message);
        }
    }
    let mut may_be_function = false;
    for_each_ident(function.output.clone(), &mut |ident| {
        may_be_function |= ["_", "Fn", "FnMut", "FnOnce", "fn"]
            .iter()
            .any(|name| ident == name);
    });
    if let Some(Expr::Closure(held)) = &args.when_held
        && !may_be_function
    {
        let value: Vec<TokenTree> = held.body.to_token_stream().into_iter().collect();
        let message = format!(
            "`when_held` takes a value; write `when_held = {}`",
            joined(&value)
        );
        mistakes.add(Error::new_spanned(held, message));
    }
    if let Some(Expr::Async(held)) = &args.when_held {
        let message = "`when_held` takes a value, not a future; write what the future would give, \
                       or `.await` it";
        mistakes.add(Error::new_spanned(held, message));
    }
    if let Some(lease) = &args.lease
        && names.contains(&lease.unraw().to_string())
    {
        let message =
            format!("`lease = {lease}` hides the argument `{lease}`; choose another name");
        mistakes.add_at(lease.span(), message);
    }
}

/// The place where the value mentions `self`.
fn self_of(value: &Expr) -> Option<Span> {
    let mut place = None;
    for_each_ident(value.to_token_stream(), &mut |ident| {
        if ident == "self" {
            place = Some(ident.span());
        }
    });
    place
}

/// A key that all calls share although it looks as if it named an argument: `"order:$id"`, or
/// `"order:{{id}}"`.
fn names_as_text(key: &Template, names: &[String], mistakes: &mut Mistakes) {
    let Some(text) = key.constant_text() else {
        return;
    };
    let ends_word = |rest: &str| !rest.starts_with(unicode_ident::is_xid_continue);
    let contains = |found: &str| {
        let mut places = text.match_indices(found);
        places.any(|(at, _)| ends_word(&text[at + found.len()..]))
    };
    for name in names {
        let ways = [
            "{NAME}", "$NAME", "#NAME", "@NAME", "<NAME>", "[NAME]", "::NAME",
        ];
        let mut ways = ways.map(|way| way.replace("NAME", name)).into_iter();
        let found = ways.find(|way| contains(way)).or_else(|| {
            let at_start = format!(":{name}");
            (text == at_start).then_some(at_start)
        });
        let found = match found {
            Some(found) if found.starts_with('{') => format!("{{{found}}}"),
            Some(found) => found,
            None => continue,
        };
        mistakes.add_at(key.span(), is_text(&found, name));
    }
    let of_printf = ["%s", "%d", "%i", "%u"].into_iter().find(|it| contains(it));
    if let (Some(found), Some(name)) = (of_printf, names.iter().find(|name| *name != "self")) {
        mistakes.add_at(key.span(), is_text(found, name));
    }
}

fn is_text(found: &str, name: &str) -> String {
    format!(
        "`{found}` is text in this key, which all calls share; \
         write `{{{name}}}` for the value of the argument"
    )
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
