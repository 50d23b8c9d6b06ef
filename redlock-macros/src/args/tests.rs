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
           lease = lease, name = "orders", when_held = Ok(()), on_error = |error, | Err::<(), _>(error),
           via = pick::<u8, u16>(a = 1, b), crate = ::lock,"#,
    );
    assert_eq!(mistakes, [""; 0]);
    assert!(args.key.is_some() && args.on_error.is_some() && args.via.is_some());
    assert!(args.name.is_some() && args.krate.is_some() && args.when_held.is_some());
    assert_eq!(args.durations().count(), 4);
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
fn unknown_arguments() {
    assert_eq!(
        mistakes("expires = 5s"),
        ["unknown argument `expires`; did you mean `expire`?"]
    );
    assert_eq!(
        mistakes("ttl = 5s"),
        ["unknown argument `ttl`; did you mean `expire`?"]
    );
    assert_eq!(
        mistakes("colour = 5s"),
        [
            "unknown argument `colour`; the arguments are `key`, `expire`, `wait`, `renew`, \
          `max_hold`, `lease`, `name`, `when_held`, `on_error`, `via` and `crate`"
        ]
    );
}

#[test]
fn synonyms_are_no_names() {
    for (word, name) in SYNONYMS {
        assert!(ARGUMENTS.iter().any(|(known, _)| *known == name));
        assert!(ARGUMENTS.iter().all(|(known, _)| *known != word));
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
fn given_twice() {
    assert_eq!(
        mistakes("expire = 5s, expire = 6s"),
        ["`expire` is given twice"]
    );
    assert_eq!(mistakes("\"order\", key = \"order\"").len(), 2);
}

#[test]
fn the_key_is_named() {
    let unnamed = ["the key is a named argument; write `key = \"order\"`"];
    assert_eq!(mistakes("\"order\""), unnamed);
    assert_eq!(mistakes("\"order\", expire = 5s"), unnamed);
    assert_eq!(
        mistakes("5s"),
        ["expected the name of an argument, such as `key = \"order:{id}\"`"]
    );
}

#[test]
fn values_are_given_with_an_equals_sign() {
    for source in ["expire", "expire =", "expire, wait = 1s"] {
        assert_eq!(
            mistakes(source),
            ["`expire` needs a value; write `expire = 5s`"]
        );
    }
    for source in ["expire: 5s", "expire(5s)"] {
        let message = "`expire` takes its value after `=`; write `expire = 5s`";
        assert_eq!(mistakes(source), [message]);
    }
}

#[test]
fn missing_commas() {
    assert_eq!(
        mistakes("key = \"a\" expire = 5s"),
        ["expected `,` before `expire`"]
    );
    assert_eq!(
        mistakes("expire = 5s wait = 2s"),
        ["expected `,` before `wait`"]
    );
    assert_eq!(
        mistakes("via = a expire = 5s"),
        ["expected `,` before `expire`"]
    );
    assert_eq!(
        mistakes("via = a b, expire = 5s"),
        ["expected `,` before `b`"]
    );
}

#[test]
fn the_key_is_a_string() {
    let write = |key: &str| format!("the key is one string literal; write `key = {key}`");
    assert_eq!(mistakes("key = id"), [write("\"{id}\"")]);
    assert_eq!(mistakes("key = format!(\"a\")"), [write("\"order:{id}\"")]);
    assert_eq!(mistakes("key = b\"order\""), [write("\"order:{id}\"")]);
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
