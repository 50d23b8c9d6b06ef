//! What the arguments must be to each other and to the function.

use proc_macro2::{Span, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::{Error, Expr};

use crate::args::{Args, Renew};
use crate::duration::{Duration, Known, not_constant};
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
    for (name, duration) in args.named_durations() {
        let constant = duration.and_then(Duration::constant);
        let ident = constant.and_then(|path| path.path.get_ident());
        if let Some(ident) = ident.filter(|ident| names.contains(&ident.unraw().to_string())) {
            mistakes.add_at(ident.span(), not_constant(name));
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
            true => in_braces,
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
mod tests {
    use quote::quote;

    use super::*;
    use proc_macro2::TokenStream;

    /// Everything that is reported for `#[redis_lock(args)] item`.
    fn mistakes(args: &str, item: TokenStream) -> Vec<String> {
        let mut mistakes = Mistakes::default();
        let args = Args::parse(args.parse().unwrap(), &mut mistakes);
        arguments(&args, &mut mistakes);
        let function = Function::parse(item).unwrap_or_else(|mistake| panic!("{mistake}"));
        names(&args, &function, &mut mistakes);
        match mistakes.finish() {
            Ok(()) => Vec::new(),
            Err(all) => all.into_iter().map(|mistake| mistake.to_string()).collect(),
        }
    }

    fn argument_mistakes(args: &str) -> Vec<String> {
        mistakes(
            args,
            quote!(
                async fn pay(order: Order) {}
            ),
        )
    }

    #[test]
    fn the_key_is_required() {
        let missing = "missing argument `key`; it names what is locked: `key = \"order:{id}\"`";
        assert_eq!(argument_mistakes(""), [missing]);
        assert_eq!(argument_mistakes("expire = 5s"), [missing]);
        assert!(argument_mistakes("key = \"order\"").is_empty());
    }

    #[test]
    fn durations_of_zero() {
        assert_eq!(
            argument_mistakes("key = \"k\", expire = 0s, wait = 0s, renew = 0ms, max_hold = 0"),
            [
                "`expire` must be longer than zero",
                "`renew` must be longer than zero",
                "`max_hold` must be longer than zero",
            ]
        );
    }

    #[test]
    fn the_lease_must_outlast_the_drift() {
        let too_short = "`expire` is shorter than the clock drift that Redlock allows for; \
                         the lock could never be held";
        assert_eq!(argument_mistakes("key = \"k\", expire = 1ms"), [too_short]);
        assert_eq!(argument_mistakes("key = \"k\", expire = 2ms"), [too_short]);
        assert!(argument_mistakes("key = \"k\", expire = 3ms").is_empty());
    }

    #[test]
    fn no_lease_is_longer_than_a_day() {
        let too_long = "`expire` is longer than a day, which no node set allows; \
                        for long work take a short lease and `renew`";
        assert_eq!(argument_mistakes("key = \"k\", expire = 25h"), [too_long]);
        assert!(argument_mistakes("key = \"k\", expire = 24h").is_empty());
    }

    #[test]
    fn renewal_must_come_before_the_end() {
        let renew = |expire: &str| {
            format!(
                "`renew` must be shorter than `expire`, which is {expire}; \
                 the lock would expire first"
            )
        };
        assert_eq!(
            argument_mistakes("key = \"k\", expire = 5s, renew = 5000ms"),
            [renew("5s")]
        );
        assert_eq!(
            argument_mistakes("key = \"k\", expire = 5, renew = 1m"),
            [renew("5s")]
        );
        assert!(argument_mistakes("key = \"k\", expire = 5s, renew = 4999ms").is_empty());
        // Their values are known to rustc only, and the default to the runtime only.
        assert!(argument_mistakes("key = \"k\", expire = LEASE, renew = 1h").is_empty());
        assert!(argument_mistakes("key = \"k\", renew = 1h").is_empty());
    }

    #[test]
    fn renewals_have_a_shortest_interval() {
        let interval = "`renew` must be at least 10ms, because each renewal asks all nodes";
        let lease = "a lease that is renewed must be at least 30ms; \
                     `renew` asks all nodes every third of it";
        assert_eq!(
            argument_mistakes("key = \"k\", expire = 5s, renew = 9ms"),
            [interval]
        );
        assert_eq!(argument_mistakes("key = \"k\", renew = 1ms"), [interval]);
        assert_eq!(
            argument_mistakes("key = \"k\", expire = 29ms, renew"),
            [lease]
        );
        assert!(argument_mistakes("key = \"k\", expire = 20ms, renew = 10ms").is_empty());
        assert!(argument_mistakes("key = \"k\", expire = 30ms, renew").is_empty());
    }

    #[test]
    fn max_hold_needs_renewal() {
        let without = "`max_hold` has no effect without `renew`; \
                       the lease already ends after `expire`";
        assert_eq!(argument_mistakes("key = \"k\", max_hold = 1m"), [without]);
        assert!(argument_mistakes("key = \"k\", max_hold = 1m, renew").is_empty());
        assert_eq!(
            argument_mistakes("key = \"k\", expire = 5s, renew, max_hold = 4s"),
            ["`max_hold` is shorter than `expire`; make the lease shorter instead"]
        );
    }

    #[test]
    fn roots_of_dotted_placeholders() {
        let root = |key: &str, item| mistakes(&format!("key = {key:?}"), item);
        let pay = || {
            quote!(
                async fn pay(req: Request, Path(id): Path<u64>) {}
            )
        };
        assert_eq!(
            root("{rq.user}", pay()),
            ["`rq` in `{rq.user}` is not an argument of `pay`; did you mean `{req.user}`?"]
        );
        assert_eq!(
            root("{order.user:?}", pay()),
            ["`order` in `{order.user:?}` is not an argument of `pay`; \
              its arguments are `req` and `id`"]
        );
        assert_eq!(
            root(
                "{self.id}",
                quote!(
                    async fn pay(id: u64) {}
                )
            ),
            ["`self` in `{self.id}` is not an argument of `pay`; its argument is `id`"]
        );
        assert_eq!(
            root(
                "{order.id}",
                quote!(
                    async fn pay() {}
                )
            ),
            ["`order` in `{order.id}` is not an argument of `pay`; it has none"]
        );
        assert!(
            root(
                "{self.id}",
                quote!(
                    async fn pay(&self) {}
                )
            )
            .is_empty()
        );
        assert!(
            root(
                "{type.id}",
                quote!(
                    async fn pay(r#type: Type) {}
                )
            )
            .is_empty()
        );
        assert_eq!(
            root("{idd} {CONFIG.shard}", pay()),
            ["`idd` in `{idd}` is not an argument of `pay`; did you mean `{id}`?"]
        );
        assert_eq!(
            root("{unknown}:{id!raw}", pay()).len(),
            1,
            "rustc would replace the whole key"
        );
        assert!(root("{unknown}:{id}", pay()).is_empty(), "rustc finds it");
        assert!(root("{SHARD} {CONFIG.shard}", pay()).is_empty());
        assert_eq!(
            root("{req.id:y}", pay()),
            ["`:y` in `{req.id:y}` is no format; those of `format!` are, such as `:?` and `:05`"]
        );
        assert!(root("{id:y}", pay()).is_empty(), "rustc explains it");
        assert_eq!(
            root("{self}:{id}", pay()),
            ["`self` in `{self}` is not an argument of `pay`; its arguments are `req` and `id`"]
        );
        assert_eq!(
            root("{ide!raw}", pay()),
            ["`ide` in `{ide!raw}` is not an argument of `pay`; did you mean `{id!raw}`?"]
        );
        assert_eq!(
            root("{req:>idd$}", pay()),
            ["`idd` in `{req:>idd$}` is not an argument of `pay`; did you mean `{req:>id$}`?"]
        );
        assert_eq!(root("{unknown:>other$} {req:>WIDTH$}", pay()).len(), 2);
    }

    #[test]
    fn values_are_separated() {
        let pay = quote!(
            async fn pay(shop: &str, id: u64) {}
        );
        assert_eq!(
            mistakes("key = \"pay:{shop}{id:?}\"", pay),
            ["`{shop}{id:?}` gives the same key for different values; \
              put a separator between them: `{shop}:{id:?}`"]
        );
    }

    #[test]
    fn a_name_in_a_constant_key_is_meant_to_be_a_placeholder() {
        for (key, found) in [
            ("order:$order", "$order"),
            ("$order-", "$order"),
            ("{{order}}:x", "{order}"),
        ] {
            let message = format!(
                "`{found}` is text in this key, which all calls share; \
                 write `{order}` for the value of the argument",
                order = "{order}"
            );
            assert_eq!(argument_mistakes(&format!("key = {key:?}")), [message]);
        }
        for key in ["order", "$orders", "{{order", "{{{order}}}", "{{x}}"] {
            assert!(
                argument_mistakes(&format!("key = {key:?}")).is_empty(),
                "{key}"
            );
        }
    }

    #[test]
    fn an_argument_is_no_constant() {
        let mistakes = argument_mistakes("key = \"k\", wait = order, renew = order");
        assert_eq!(mistakes.len(), 2);
        assert!(mistakes[0].starts_with("`wait` takes a literal such as `5s`"));
        assert!(mistakes[1].contains(".renew_every(..)"));
    }

    #[test]
    fn when_held_takes_a_value() {
        let held = "key = \"k\", when_held = |_| Ok(())";
        assert_eq!(
            argument_mistakes(held),
            ["`when_held` takes a value; write `when_held = Ok(())`"]
        );
        let function = quote!(
            async fn f() -> impl Fn(u8) -> Result<(), E> {}
        );
        assert!(mistakes(held, function).is_empty());
    }

    #[test]
    fn the_lease_hides_no_argument() {
        assert_eq!(
            argument_mistakes("key = \"k\", lease = order"),
            ["`lease = order` hides the argument `order`; choose another name"]
        );
    }
}
