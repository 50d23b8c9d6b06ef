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

#[test]
fn the_key_is_required() {
    let missing = "missing argument `key`; it names what is locked: `key = \"..\"`";
    assert_eq!(argument_mistakes(""), [missing]);
    assert_eq!(argument_mistakes("expire = 5s"), [missing]);
    assert!(argument_mistakes("key = \"order\"").is_empty());
}

#[test]
fn durations_of_zero() {
    assert_eq!(
        argument_mistakes(
            "key = \"k\", expire = 0s, wait = 0s, renew = 0ms, max_hold = 0, at_least = 0"
        ),
        [
            "`expire` must be longer than zero",
            "`renew` must be longer than zero",
            "`max_hold` must be longer than zero",
            "`at_least` must be longer than zero",
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
fn a_lock_is_kept_no_longer_than_its_lease() {
    let longer = "`at_least` is longer than `expire`, which is 5s; \
                  the nodes keep the lock of a process that crashes no longer than that";
    assert_eq!(
        argument_mistakes("key = \"k\", expire = 5s, at_least = 5001ms"),
        [longer]
    );
    assert!(argument_mistakes("key = \"k\", expire = 5s, at_least = 5s").is_empty());
    assert!(argument_mistakes("key = \"k\", at_least = 1h, wait = 2s, renew").is_empty());
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
    assert!(
        root("{idd}:{id}", pay()).is_empty(),
        "rustc corrects it in the literal"
    );
    assert_eq!(
        root("{unknown}:{id}", pay()).len(),
        1,
        "rustc may propose an import"
    );
    assert!(root("{SHARD} {CONFIG.shard}", pay()).is_empty());
    assert_eq!(
        root("{req.id:y}", pay()),
        ["`:y` in `{req.id:y}` is no format; those of `format!` are, such as `:?` and `:05`"]
    );
    assert!(root("{id:y}", pay()).is_empty(), "rustc explains it");
    assert_eq!(root("{id:%d}", pay()).len(), 1, "rustc speaks of braces");
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
fn the_lease_hides_no_argument() {
    assert_eq!(
        argument_mistakes("key = \"k\", lease = order"),
        ["`lease = order` hides the argument `order`; choose another name"]
    );
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
        ("weight = 0, permits = 3", "a lock has 1 to 1024 permits"),
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
