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
    durations(args, mistakes);
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
    for (name, duration) in [
        ("expire", expire),
        ("renew", interval),
        ("max_hold", max_hold),
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
}

/// What Redlock takes off a lease because the nodes' clocks may run faster: 1 % and 2 ms.
fn drift(millis: u64) -> u64 {
    millis / 100 + 2
}

pub(crate) fn names(args: &Args, function: &Function, mistakes: &mut Mistakes) {
    let names = function.argument_names();
    if let Some(key) = &args.key {
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
    for name in names {
        let [in_braces, in_shell] = [format!("{{{name}}}"), format!("${name}")];
        let ends_there = |(at, found): (usize, &str)| {
            !text[at + found.len()..].starts_with(unicode_ident::is_xid_continue)
        };
        let found = match text.contains(&in_braces) {
            true => format!("{{{in_braces}}}"),
            false if text.match_indices(&in_shell).any(ends_there) => in_shell,
            false => continue,
        };
        let message = format!(
            "`{found}` is text in this key, which all calls share; \
             write `{{{name}}}` for the value of the argument"
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
        // Of `self` rustc says that it is a module.
        if !is_rewritten && placeholder.root() != "self" {
            continue;
        }
        if let Some(spec) = placeholder.wrong_spec() {
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
            let remedy = match (similar, names) {
                (Some(name), _) => {
                    format!("did you mean `{}`?", text.replacen(unknown, name, 1))
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
