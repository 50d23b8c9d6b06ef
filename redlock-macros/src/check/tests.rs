use quote::quote;

use super::*;
use crate::args::ARGUMENTS;
use proc_macro2::TokenStream;

/// Everything that is reported for `#[redis_lock(args)] item`.
fn mistakes(args: &str, item: TokenStream) -> Vec<String> {
    let mut mistakes = Mistakes::default();
    let function = Function::parse(item).unwrap_or_else(|mistake| panic!("{mistake}"));
    let args = Args::parse(
        args.parse().unwrap(),
        function.argument_names(),
        &mut mistakes,
    );
    arguments(&args, &mut mistakes);
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

/// What each duration must be; without a message, it is just long or short enough.
#[test]
fn durations() {
    let drift = "`expire` is shorter than the clock drift that Redlock allows for; \
                 the lock could never be held";
    let day = "`expire` is longer than a day, which no node set allows; \
               for long work take a short lease and `renew`";
    let renewed = "`renew` must be shorter than `expire`, which is 5s; the lock would expire first";
    let interval = "`renew` must be at least 10ms, because each renewal asks all nodes";
    let third = "a lease that is renewed must be at least 30ms; \
                 `renew` asks all nodes every third of it";
    let kept = "`at_least` is longer than `expire`, which is 5s; \
                the nodes keep the lock of a process that crashes no longer than that";
    let hold = "`max_hold` is shorter than `expire`; make the lease shorter instead";
    for (args, message) in [
        ("wait = 0s", None),
        ("renew = 0ms", Some("`renew` must be longer than zero")),
        (
            "renew, max_hold = 0",
            Some("`max_hold` must be longer than zero"),
        ),
        ("at_least = 0", Some("`at_least` must be longer than zero")),
        ("expire = 2ms", Some(drift)),
        ("expire = 3ms", None),
        ("expire = 25h", Some(day)),
        ("expire = 24h", None),
        ("expire = 5, renew = 1m", Some(renewed)),
        ("expire = 5s, renew = 4999ms", None),
        // Their values are known to rustc only, and the default to the runtime only.
        ("expire = LEASE, renew = 1h", None),
        ("renew = 1h", None),
        ("renew = 9ms", Some(interval)),
        ("expire = 20ms, renew = 10ms", None),
        ("expire = 29ms, renew", Some(third)),
        ("expire = 30ms, renew", None),
        ("expire = 5s, at_least = 5001ms", Some(kept)),
        ("expire = 5s, at_least = 5s", None),
        ("at_least = 1h, wait = 2s, renew", None),
        ("expire = 5s, renew, max_hold = 4s", Some(hold)),
        ("renew, max_hold = 1m", None),
    ] {
        let said = argument_mistakes(&format!("key = \"k\", {args}"));
        assert_eq!(said, Vec::from_iter(message), "{args}");
    }
}

/// What rustc says well enough is left to it.
#[test]
fn names_that_are_no_argument() {
    let pay = || {
        quote!(
            async fn pay(req: Request, Path(id): Path<u64>) {}
        )
    };
    for (key, expected) in [
        (
            "{order.user:?}",
            "`order` in `{order.user:?}` is not an argument of `pay`; its arguments are `req` and `id`",
        ),
        (
            "{idd} {CONFIG.shard}",
            "`idd` in `{idd}` is not an argument of `pay`; did you mean `{id}`?",
        ),
        (
            "{ide!raw}",
            "`ide` in `{ide!raw}` is not an argument of `pay`; did you mean `{id!raw}`?",
        ),
        (
            "{req:>idd$}",
            "`idd` in `{req:>idd$}` is not an argument of `pay`; did you mean `{req:>id$}`?",
        ),
    ] {
        assert_eq!(mistakes(&format!("key = {key:?}"), pay()), [expected]);
    }
    for (key, count) in [
        ("{unknown}:{id!raw}", 1),
        ("{unknown}:{id}", 1),
        ("{id:%d}", 1),
        ("{unknown:>other$} {req:>WIDTH$}", 2),
        ("{idd}:{id}", 0),
        ("{id:y}", 0),
        ("{SHARD} {CONFIG.shard}", 0),
    ] {
        assert_eq!(
            mistakes(&format!("key = {key:?}"), pay()).len(),
            count,
            "{key}"
        );
    }
    let without = mistakes(
        "key = \"{order.id}\"",
        quote!(
            async fn pay() {}
        ),
    );
    assert_eq!(
        without,
        ["`order` in `{order.id}` is not an argument of `pay`; it has none"]
    );
}

#[test]
fn text_that_names_an_argument() {
    for (key, found) in [
        ("order:$order", "$order"),
        ("$order-", "$order"),
        ("{{order}}:x", "{{order}}"),
        ("'order:' + #order", "#order"),
        ("x:<order>", "<order>"),
        (":order", ":order"),
        ("orders/:order", ":order"),
        ("{SHARD}:$order", "$order"),
        ("{SHARD}:{{order}}", "{{order}}"),
    ] {
        let message = format!(
            "`{found}` is text in this key, the same for all calls; \
             write `{order}` for the value of the argument",
            order = "{order}"
        );
        assert_eq!(argument_mistakes(&format!("key = {key:?}")), [message]);
    }
    let of_printf =
        "`%d` is text in this key, the same for all calls; an argument stands in braces";
    assert_eq!(argument_mistakes("key = \"x:%d\""), [of_printf]);
    for key in [
        "order",
        "x:order",
        "x::order",
        "{SHARD}:order",
        "{{order}}:{order.id}",
        "$order:{order}",
        "100%",
        "$orders",
        "{{order",
        "{{{order}}}",
        "{{x}}",
    ] {
        assert!(
            argument_mistakes(&format!("key = {key:?}")).is_empty(),
            "{key}"
        );
    }
}

#[test]
fn permits_are_a_number() {
    let of = |permits: &str| argument_mistakes(&format!("key = \"k\", permits{permits}"));
    for count in ["1", "2", "1024", "3u32", "0x10"] {
        assert!(of(&format!(" = {count}, wait = 1s, reentrant")).is_empty());
    }
    for count in ["0", "1025", "-3", "5000000000"] {
        assert_eq!(of(&format!(" = {count}")), ["a lock has 1 to 1024 permits"]);
    }
    // `order` is an argument.
    for path in [
        "MOST",
        "config::MOST",
        "Self::MOST",
        "order",
        "order.most",
        "order.most()",
        "*order",
    ] {
        assert!(of(&format!(" = {path}")).is_empty());
    }
    for wrong in [
        "\"3\"",
        "most()",
        "3.5",
        "order + 1",
        "3s",
        "3usize",
        "*MOST",
    ] {
        let message = of(&format!(" = {wrong}")).join("");
        assert!(message.starts_with("`permits` takes a number"), "{message}");
    }
    assert_eq!(
        of(""),
        ["`permits` needs a value after `=`, as in `permits = 3`"]
    );
}

#[test]
fn a_weight_is_a_number_of_the_permits() {
    let of = |args: &str| argument_mistakes(&format!("key = \"k\", {args}"));
    for args in [
        "permits = 3, weight = 3",
        "weight = 1, permits = 1",
        "permits = MOST, weight = 9",
        "permits = 3, weight = order.size",
    ] {
        assert!(of(args).is_empty(), "{args}");
    }
    for (args, mistake) in [
        (
            "weight = 0, permits = 3",
            "`weight` must be at least 1, and at most `permits`",
        ),
        (
            "weight = 4, permits = 3",
            "`weight` must be at least 1, and at most `permits`",
        ),
        (
            "weight = 2",
            "`weight` says how many of the `permits` a call takes; add `permits`",
        ),
    ] {
        assert_eq!(of(args), [mistake]);
    }
}

#[test]
fn what_cannot_be_combined() {
    for (name, other) in EXCLUDED {
        let example = |name: &str| match name {
            SEVERAL_KEYS => "key = [\"a\", \"b\"]",
            "weight" if other == SEVERAL_KEYS => "weight = 2",
            "weight" => "permits = 3, weight = 2",
            name => {
                ARGUMENTS
                    .iter()
                    .find(|(known, ..)| *known == name)
                    .unwrap()
                    .1
            }
        };
        let key = if other == SEVERAL_KEYS {
            ""
        } else {
            "key = \"k\", "
        };
        let other = if key.is_empty() {
            other.to_owned()
        } else {
            format!("`{other}`")
        };
        let args = format!(
            "{key}{}, {}",
            example(name),
            example(other.trim_matches('`'))
        );
        let remedy = match (name, other.as_str()) {
            ("shared", SEVERAL_KEYS) => r#"write `shared("..")` in the list"#,
            ("permits", SEVERAL_KEYS) => r#"write `permits("..", 3)` in the list"#,
            ("weight", SEVERAL_KEYS) => r#"write `permits("..", 3, weight = 2)` in the list"#,
            _ => "leave out one of the two",
        };
        let message = format!("`{name}` cannot be combined with {other}; {remedy}");
        assert_eq!(argument_mistakes(&args), [message]);
    }
}

#[test]
fn what_goes_together() {
    for kind in [
        "shared, reentrant",
        "fair, reentrant",
        "fair, at_least = 1s",
        "permits = 3, reentrant",
        "permits = 3, at_least = 1s",
        "at_least = 1s",
    ] {
        for others in ["wait = 1s", "renew, max_hold = 1m", "lease = lease"] {
            let args = format!("key = \"k\", {kind}, {others}");
            assert!(argument_mistakes(&args).is_empty(), "{args}");
        }
    }
    let several = "key = [\"a\", \"b\"], reentrant, wait = 1s, renew, max_hold = 1m";
    assert!(argument_mistakes(several).is_empty());
    let leads = "key = \"k\", leader, expire = 5s, renew = 1s, max_hold = 1m, lease = lease";
    assert!(argument_mistakes(leads).is_empty());
    assert!(argument_mistakes("key = \"k\", leader, max_hold = 1m").is_empty());
}
