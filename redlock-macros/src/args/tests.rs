use super::words::{ELSEWHERE, SYNONYMS};
use super::*;

fn parse(source: &str) -> (Args, Vec<String>) {
    let mut mistakes = Mistakes::default();
    let args = Args::parse(source.parse().unwrap(), &mut mistakes);
    let all = mistakes.finish().err().into_iter().flatten();
    (args, all.map(|mistake| mistake.to_string()).collect())
}

fn mistakes(source: &str) -> Vec<String> {
    parse(source).1
}

#[test]
fn every_argument() {
    let (args, mistakes) = parse(
        r#"key = "order:{id}", expire = 5s, wait = WAIT, renew = 1s, max_hold = 1m,
           at_least = 2s, shared, reentrant, fair, lease = lease, name = "orders", when_held = Ok(()), on_error = |error, | Err::<(), _>(error),
           via = pick::<u8, u16>(a = 1, b), crate = ::lock,"#,
    );
    assert_eq!(mistakes, [""; 0]);
    assert!(args.keys.is_some() && args.on_error.is_some() && args.via.is_some());
    assert!(args.name.is_some() && args.krate.is_some() && args.when_held.is_some());
    assert_eq!(args.durations().count(), 5);
    assert_eq!(args.lease.unwrap(), "lease");
}

#[test]
fn renew_takes_an_interval_or_nothing() {
    assert!(matches!(parse("renew").0.renew, Some(Renew::Default)));
    assert!(matches!(
        parse("renew, expire = 5s").0.renew,
        Some(Renew::Default)
    ));
    assert!(matches!(parse("renew = 1s").0.renew, Some(Renew::Every(_))));
    assert_eq!(
        mistakes("renew = true"),
        ["`renew` takes an interval or no value; write `renew`"]
    );
    assert_eq!(
        mistakes("renew = false"),
        ["`renew` takes an interval; leave it out if the lock is not to be renewed"]
    );
}

#[test]
fn shared_takes_no_value() {
    let (args, wrong) = parse("shared, expire = 5s");
    assert!(args.shared && wrong.is_empty() && !parse("reentrant").0.shared);
    let message = "`shared` takes no value; write `shared`";
    assert_eq!(mistakes("shared = true"), [message]);
}

#[test]
fn reentrant_takes_no_value() {
    let (args, wrong) = parse("reentrant, expire = 5s");
    assert!(args.reentrant && wrong.is_empty() && !parse("renew").0.reentrant);
    let message = "`reentrant` takes no value; write `reentrant`";
    for source in [
        "reentrant = true",
        "reentrant = 1, renew",
        "reentrant(true)",
        "reentrant =",
    ] {
        assert_eq!(mistakes(source), [message], "{source}");
    }
    assert_eq!(
        mistakes("reentrant = false"),
        ["`reentrant` takes no value; leave it out if the lock is not to be reentrant"]
    );
}

#[test]
fn unknown_arguments() {
    assert_eq!(
        mistakes("expires = 5s"),
        ["unknown argument `expires`; did you mean `expire`?"]
    );
    assert_eq!(
        mistakes("ttl = 5s"),
        ["unknown argument `ttl`; did you mean `expire = 5s`?"]
    );
    assert_eq!(
        mistakes("colour = 5s"),
        [
            "unknown argument `colour`; the arguments are `key`, `expire`, `wait`, `renew`, \
          `max_hold`, `at_least`, `shared`, `permits`, `reentrant`, `fair`, `lease`, `name`, `when_held`, `on_error`, `via` and `crate`"
        ]
    );
}

#[test]
fn names_of_several_words() {
    for (name, known) in [
        ("ttl_ms", "expire"),
        ("lease_time", "expire"),
        ("leaseTime", "expire"),
        ("leasetime", "expire"),
        ("lockAtMostFor", "expire"),
        ("lock_ttl", "expire"),
        ("max_wait_time", "wait"),
        ("blocking_timeout", "wait"),
        ("renewInterval", "renew"),
        ("keepalive", "renew"),
        ("max_hold_time", "max_hold"),
        ("skip_if_locked", "when_held"),
        ("on_timeout_error", "on_error"),
        ("redis_client", "via"),
    ] {
        let [message] = &mistakes(&format!("{name} = x"))[..] else {
            panic!("{name}: one mistake");
        };
        let meant = format!("unknown argument `{name}`; did you mean `{known}");
        assert!(message.starts_with(&meant), "{message}");
        let alone = format!("key = \"k\", {name}");
        assert!(mistakes(&alone)[0].contains(known), "{name}");
    }
}

#[test]
fn what_the_attribute_does_not_have() {
    for (name, remedy) in [
        ("keyPrefix", "`Redlock::builder()`"),
        ("exclusive", "leave it out"),
        ("no_wait", "leave it out"),
    ] {
        let [message] = &mistakes(&format!("{name} = 1"))[..] else {
            panic!("one mistake");
        };
        assert!(message.starts_with(&format!("unknown argument `{name}`; ")));
        assert!(message.contains(remedy), "{message}");
    }
    for (words, _) in ELSEWHERE {
        for word in words {
            let is = |(_, words): &(&str, &[&str])| words.contains(word);
            assert!(!SYNONYMS.iter().any(is), "{word} is in both tables");
        }
    }
}

#[test]
fn values_of_the_key_stand_in_it() {
    let message = "the key names its values where they stand; write `{order.id}` in place of `{x}`";
    assert_eq!(
        mistakes("key = \"{x}\", x = order.id, expire = 5s"),
        [message]
    );
}

#[test]
fn what_is_around_the_arguments() {
    let mistake = |source| mistakes(source).remove(0);
    assert_eq!(mistake("key = \"k\",, expire = 5s"), "remove this `,`");
    assert!(mistake("{ key = \"k\" }").ends_with("own parentheses; remove these"));
    let off = "to do without `renew`, leave it out";
    assert_eq!(mistake("key = \"k\", !renew"), off);
    let named = "an argument begins with its name; write `expire = 5s`";
    assert_eq!(mistake("key = \"k\", --expire 5s"), named);
    assert_eq!(mistake("renew()"), "write `renew` alone, or `renew = 1s`");
}

#[test]
fn synonyms_are_no_names() {
    let is_name = |word: &str| ARGUMENTS.iter().any(|(known, _)| *known == word);
    for (name, words) in SYNONYMS {
        assert!(is_name(name), "{name}");
        assert!(words.iter().all(|word| !is_name(word)), "{words:?}");
    }
}

#[test]
fn the_documentation_has_every_argument() {
    let documentation = include_str!("../lib.rs");
    for (name, _) in ARGUMENTS {
        assert!(documentation.contains(&format!("/// | `{name}")), "{name}");
    }
}

#[test]
fn examples_are_correct() {
    for (_, example) in ARGUMENTS {
        assert_eq!(mistakes(example), [""; 0], "{example}");
    }
}

#[test]
fn other_values() {
    for source in ["lease = \"g\"", "lease = _", "lease = fn", "lease = a b"] {
        let message = "`lease` takes a name for the body to use; write `lease = lease`";
        assert_eq!(mistakes(source), [message]);
    }
    for source in ["name = orders", "name = \"\""] {
        let message = "`name` takes a string that is not empty; write `name = \"orders\"`";
        assert_eq!(mistakes(source), [message]);
    }
    assert_eq!(
        mistakes("crate = \"lock\""),
        ["`crate` takes a path; write `crate = ::redlock_runtime`"]
    );
    assert_eq!(
        mistakes("via = self."),
        ["the value of `via` is incomplete"]
    );
    assert_eq!(
        mistakes("on_error = |error|"),
        ["the value of `on_error` is incomplete"]
    );
}

#[test]
fn everything_at_once() {
    let all = mistakes("key = \"{\", expires = 5s, wait = 5sec, name = 5, lease = 5, crate = 5");
    assert_eq!(all.len(), 6);
}

#[track_caller]
fn assert_mistakes(cases: &[(&str, &[&str])]) {
    for (source, messages) in cases {
        assert_eq!(mistakes(source), *messages, "{source}");
    }
}

#[test]
fn given_twice() {
    assert_mistakes(&[
        ("expire = 5s, expire = 6s", &["`expire` is given twice"]),
        (
            "key = \"a\", key = \"b\"",
            &[
                "`key` is given twice; for several keys, of which all or none are locked, \
               write `key = [\"order:{id}\", \"stock\"]`",
            ],
        ),
    ]);
    assert_eq!(mistakes("\"order\", key = \"order\"").len(), 2);
}

#[test]
fn names_in_other_letters_and_words() {
    for (source, name) in [
        ("EXPIRE = 5s", "expire"),
        ("maxHold = 5s", "max_hold"),
        ("onError = f", "on_error"),
        ("kye = \"a\"", "key"),
        ("auto_renew", "renew"),
    ] {
        let (args, mistakes) = parse(source);
        let written = source.split(' ').next().unwrap();
        assert_eq!(
            mistakes,
            [format!(
                "unknown argument `{written}`; did you mean `{name}`?"
            )]
        );
        assert!(args.intended(name) && args.given(name).is_none());
    }
}

#[test]
fn several_keys_are_a_list() {
    for (source, count) in [
        (r#"key = ["a"]"#, 1),
        (r#"key = ["a:{x}", "b"], renew"#, 2),
        (r#"key = ["a", "b",]"#, 2),
    ] {
        let (args, mistakes) = parse(source);
        assert_eq!(mistakes, [""; 0], "{source}");
        assert_eq!(args.keys.unwrap().len(), count);
    }
    let remedy = "for several keys, of which all or none are locked, \
                  write `key = [\"order:{id}\", \"stock\"]`";
    let keys = format!("`keys` is not an argument; {remedy}");
    assert_eq!(mistakes("keys = [\"a\", \"b\"]"), [keys]);
    assert_mistakes(&[
        ("key = []", &["the list of keys is empty"]),
        (r#"key = ["a" "b"]"#, &["expected `,` before this key"]),
        (
            r#"key = ["a", "b", "a"]"#,
            &["`a` is in the list twice; every key is locked once"],
        ),
        (
            r#"key = ["order:{}", id]"#,
            &["the key names its values where they stand; write `key = \"order:{id}\"`"],
        ),
        (r#"key = ["a", ""]"#, &["the key is empty"]),
    ]);
    let many: Vec<String> = (0..17).map(|key| format!("\"{key}\"")).collect();
    let message = "a lock has at most 16 keys";
    assert_eq!(mistakes(&format!("key = [{}]", many.join(","))), [message]);
}

#[test]
fn the_key_is_named() {
    let unnamed = |key: &str| format!("the key is a named argument; write `key = {key}`");
    for (source, key) in [
        ("\"order\"", "\"order\""),
        ("\"order\", expire = 5s", "\"order\""),
        ("\"order:{}\", id", "\"order:{id}\""),
        ("\"{:05}/{}\", o.id, id, renew", "\"{o.id:05}/{id}\""),
        ("\"{1}/{0}\", o.id, id", "\"{id}/{o.id}\""),
        ("\"order:{}\", expire = 5s", "\"order:{}\""),
        ("\"order:{}\", id + 1", "\"order:{}\""),
    ] {
        assert_eq!(mistakes(source), [unnamed(key)], "{source}");
    }
    assert_mistakes(&[
        (
            "5s",
            &["a duration needs a name; write `expire = 5s`, or `wait = 5s`"],
        ),
        (
            "\"key\" = \"a\"",
            &["the name of an argument has no quotes; write `key = ..`"],
        ),
        (
            "=",
            &["expected the name of an argument, such as `key = \"order:{id}\"`"],
        ),
    ]);
}

#[test]
fn values_are_given_with_an_equals_sign() {
    for source in ["expire", "expire =", "expire, wait = 1s", "expire:"] {
        let message = "`expire` needs a value; write `expire = 5s`";
        assert_eq!(mistakes(source), [message]);
    }
    for source in [
        "expire: 7s",
        "expire(7s)",
        "expire 7s",
        "expire => 7s",
        "expire == 7s",
    ] {
        let message = "`expire` takes its value after `=`; write `expire = 7s`";
        assert_eq!(mistakes(source), [message]);
    }
}

#[test]
fn missing_commas() {
    for (source, before) in [
        ("key = \"a\" expire = 5s", "expire"),
        ("expire = 5s wait = 2s", "wait"),
        ("via = a expire = 5s", "expire"),
        ("via = a b, expire = 5s", "b"),
    ] {
        assert_eq!(
            mistakes(source),
            [format!("expected `,` before `{before}`")]
        );
    }
    assert_mistakes(&[
        ("key = \"a\";", &["remove the `;` after the last argument"]),
        (
            "key = \"a\"; renew; expire = 5s",
            &["arguments are separated by `,`; write it in place of `;`"; 2],
        ),
    ]);
}

#[test]
fn the_key_is_a_string() {
    for (source, key) in [
        ("id", "\"{id}\""),
        ("&order.id", "\"{order.id}\""),
        ("config::KEY", "\"{KEY}\""),
        ("(\"order\")", "\"order\""),
        ("\"order\".to_string()", "\"order\""),
        ("format!(\"order:{}\", o.id())", "\"order:{o.id()}\""),
        ("format!(\"order:{id:>5}\")", "\"order:{id:>5}\""),
        ("b\"order\"", "\"order\""),
        ("'o'", "\"o\""),
        ("5", "\"5\""),
        ("\"a\" + id", "\"a{id}\""),
        ("\"a\" + &o.id() + \":x\"", "\"a{o.id()}:x\""),
        ("concat!(\"a:\", \"b\")", "\"a:b\""),
        ("\"a:\" id", "\"a:{id}\""),
        ("\"a:%s\" % id", "\"a:{id}\""),
        ("|id| format!(\"a:{id}\")", "\"a:{id}\""),
        ("String::from(\"a:{b}\")", "\"a:{b}\""),
        ("&\"a\"", "\"a\""),
        ("order:{id}", "\"order:{id}\""),
        ("order-{o.id}", "\"order-{o.id}\""),
    ] {
        let message = format!("the key is one string literal; write `key = {key}`");
        assert_eq!(mistakes(&format!("key = {source}")), [message]);
    }
    let inlined = "the key names its values where they stand; write `key = \"a:{id}\"`";
    assert_eq!(mistakes("key = \"a:{}\", id, expire = 5s"), [inlined]);
    let computed = "the key is one string literal; for one that is computed, use \
                    `redlock.lock(key).hold(..)` instead of the attribute";
    for source in [
        "format!(\"{}\", id + 1)",
        "key(id, 5)",
        "\"a\" + id + (b)",
        "a.b(c)",
        "|o| key(o)",
    ] {
        assert_eq!(mistakes(&format!("key = {source}")), [computed], "{source}");
    }
}

#[test]
fn handlers_are_functions() {
    for (source, write) in [
        ("0", "|_| 0"),
        ("Err(E::Busy)", "|_| Err(E::Busy)"),
        ("None", "|_| None"),
        ("()", "|_| ()"),
        ("|| None", "|_| None"),
        ("|a, b| None", "|error| .."),
    ] {
        let message =
            format!("`on_error` takes a function of the error; write `on_error = {write}`");
        assert_eq!(mistakes(&format!("on_error = {source}, renew")), [message]);
    }
    for source in [
        "|error| 0",
        "handle",
        "Self::handle",
        "handler()",
        "E::from",
        "move |_| ()",
    ] {
        assert_eq!(mistakes(&format!("on_error = {source}")), [""; 0]);
    }
}

#[test]
fn values_of_other_kinds() {
    let held = "when_held = Ok(())";
    assert_mistakes(&[
        (held, &[]),
        (
            "key = \"a\", \"5s\"",
            &["a duration needs a name; write `expire = 5s`, or `wait = 5s`"],
        ),
        (
            "key = \"a\", \"b\"",
            &["`\"b\"` has no name; the key is given already"],
        ),
        (
            "key = \"order:%d\", order",
            &["unknown argument `order`; for its value in the key, write `{order}` there"],
        ),
        (
            "wait = forever",
            &["`wait` takes a duration; for no limit, write `std::time::Duration::MAX`"],
        ),
        (
            "expire = None",
            &["`expire` takes a duration; leave it out for the default"],
        ),
        ("expire = Some(5s)", &["write `5s` without the `Some`"]),
        (
            "renew = yes",
            &["`renew` takes an interval or no value; write `renew`"],
        ),
        (
            "name = \"order:{id}\"",
            &["`name` is one text for all calls; placeholders are for the key"],
        ),
        (
            "name = orders.pay",
            &["`name` takes a string that is not empty; write `name = \"orders\"`"],
        ),
        (
            "on_error(|error| Err(error))",
            &["`on_error` takes its value after `=`; write `on_error = |error| Err(error)`"],
        ),
        (
            "on_error = panic!(\"no\")",
            &["`on_error` takes a function of the error; write `on_error = |_| panic!(\"no\")`"],
        ),
        (
            "on_error = Default::default()",
            &[
                "`on_error` takes a function of the error; write `on_error = |_| Default::default()`",
            ],
        ),
        (
            "on_error = async |error| error",
            &["`on_error` cannot wait; return the error and handle it in the caller"],
        ),
        (
            "key.name = \"a\"",
            &["`key` needs a value; write `key = \"order:{id}\"`"],
        ),
    ]);
    assert_eq!(
        parse("r#kye = \"a\"").1,
        ["unknown argument `kye`; did you mean `key`?"]
    );
}
