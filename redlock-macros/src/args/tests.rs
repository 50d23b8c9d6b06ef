use super::words::ELSEWHERE;
use super::*;

fn parse(source: &str) -> (Args, Vec<String>) {
    let mut mistakes = Mistakes::default();
    let arguments = ["id", "order", "o", "order_id"].map(str::to_owned).to_vec();
    let args = Args::parse(source.parse().unwrap(), arguments, &mut mistakes);
    let all = mistakes.finish().err().into_iter().flatten();
    (args, all.map(|mistake| mistake.to_string()).collect())
}

fn mistakes(source: &str) -> Vec<String> {
    parse(source).1
}

#[test]
fn flags_take_no_value() {
    let (args, wrong) = parse("reentrant, shared");
    assert!(args.shared && args.reentrant && !args.fair && wrong.is_empty());
    for source in [
        "reentrant = true",
        "reentrant = 1, renew",
        "reentrant(true)",
        "reentrant =",
        "reentrant = false",
    ] {
        assert_eq!(
            mistakes(source),
            ["`reentrant` takes no value; write `reentrant`, or leave it out"],
            "{source}"
        );
    }
}

#[test]
fn unknown_arguments() {
    for (source, remedy) in [
        ("expires = 5s", "did you mean `expire`?"),
        ("EXPIRE = 5s", "did you mean `expire`?"),
        ("ttl = 5s", "did you mean `expire`?"),
        ("expire_ms = 5000", "did you mean `expire`?"),
        ("timeout = 500ms", "did you mean `wait`?"),
        ("max-hold = 1m", "did you mean `max_hold`?"),
        ("maxHold = 1m", "did you mean `max_hold`?"),
        ("r#kye = \"a\"", "did you mean `key`?"),
        ("keys = [\"a\"]", "did you mean `key`?"),
        (
            "colour",
            "the arguments are `key`, `expire`, `wait`, `renew`, `max_hold`, `at_least`, `shared`, \
             `permits`, `weight`, `reentrant`, `fair`, `leader`, `value`, `lease`, `name`, `when_held`, `on_error`, `via` and `crate`",
        ),
    ] {
        let name = source.trim_start_matches("r#").split(' ').next().unwrap();
        let message = format!("unknown argument `{name}`; {remedy}");
        assert_eq!(mistakes(source), [message]);
    }
    let (args, _) = parse("kye = \"a\"");
    assert!(args.intended("key") && args.given("key").is_none());
}

#[test]
fn what_is_around_the_arguments() {
    let named = "expected the name of an argument, as in `expire = 5s`";
    for source in ["{ key = \"k\" }", "!renew", "--expire 5s", "=", "5s"] {
        assert_eq!(mistakes(source)[0], named, "{source}");
    }
    assert_eq!(mistakes("key = \"k\",, expire = 5s"), [named]);
}

#[test]
fn other_words_stand_for_arguments() {
    let is_name = |word: &str| ARGUMENTS.iter().any(|(known, ..)| *known == word);
    for (word, known) in ELSEWHERE {
        assert!(is_name(known) && !is_name(word), "{word}");
    }
}

#[test]
fn the_documentation_has_every_argument() {
    let documentation = include_str!("../lib.rs");
    for (name, ..) in ARGUMENTS {
        assert!(documentation.contains(&format!("/// | `{name}")), "{name}");
    }
}

#[test]
fn examples_are_correct() {
    for (_, example) in ARGUMENTS {
        assert_eq!(mistakes(example), [""; 0], "{example}");
    }
}

#[track_caller]
fn assert_mistakes(cases: &[(&str, &[&str])]) {
    for (source, messages) in cases {
        assert_eq!(mistakes(source), *messages, "{source}");
    }
}

#[test]
fn a_key_that_is_given_twice() {
    assert_eq!(
        mistakes("key = \"a\", key = \"b\""),
        [
            "`key` is given twice; several keys, of which all or none are locked, \
          are a list: `key = [\"a\", \"b\"]`"
        ]
    );
    assert_eq!(mistakes("\"order\", key = \"order\"").len(), 1);
}

#[test]
fn several_keys_are_a_list() {
    for (source, count) in [
        (r#"key = ["a"]"#, 1),
        (r#"key = ["a:{x}", "b"], renew"#, 2),
        (r#"key = ["a", "b",]"#, 2),
        (r#"key = [shared("a")]"#, 1),
        (
            r#"key = ["a:{x}", shared("b",), permits("c", 3), permits("d", MOST, weight = 2,)], renew"#,
            4,
        ),
    ] {
        let (args, mistakes) = parse(source);
        assert_eq!(mistakes, [""; 0], "{source}");
        assert_eq!(args.keys.unwrap().len(), count);
    }
    assert_mistakes(&[
        ("key = []", &["the list of keys is empty"]),
        (r#"key = ["a", ""]"#, &["the key is empty"]),
        (r#"key = [shared("")]"#, &["the key is empty"]),
        (
            r#"key = [permits("a", 0)]"#,
            &["a lock has 1 to 1024 permits"],
        ),
        (
            r#"key = [permits("a", 3, weight = 0)]"#,
            &["`weight` must be at least 1, and at most `permits`"],
        ),
        (
            r#"key = [permits("a", 3, weight)]"#,
            &["`weight` needs a value after `=`, as in `weight = 2`"],
        ),
    ]);
    for wrong in [
        r#"shared("a", 3)"#,
        r#"permits("a", 3, 4)"#,
        r#"permits("a", 3, wait = 4)"#,
        r#"permits("a", 3 weight = 2)"#,
        r#"permits(3, "a")"#,
    ] {
        let message = "a key of a list is `\"..\"`, `shared(\"..\")`, `permits(\"..\", 3)` or \
                       `permits(\"..\", 3, weight = 2)`";
        assert_eq!(mistakes(&format!("key = [{wrong}]")), [message], "{wrong}");
    }
    let many: Vec<String> = (0..17).map(|key| format!("\"{key}\"")).collect();
    let message = "a lock has at most 16 keys";
    assert_eq!(mistakes(&format!("key = [{}]", many.join(","))), [message]);
}

#[test]
fn values_are_given_with_an_equals_sign() {
    for source in [
        "expire",
        "expire =",
        "expire, wait = 1s",
        "expire:",
        "expire: 7s",
        "expire(7s)",
        "expire 7s",
        "expire => 7s",
        "expire == 7s",
        "expire(wait => 7s)",
    ] {
        let message = "`expire` needs a value after `=`, as in `expire = 5s`";
        assert_eq!(mistakes(source), [message], "{source}");
    }
}

#[test]
fn missing_commas() {
    for (source, before) in [
        ("key = \"a\" expire = 5s", "expire"),
        ("expire = 5s wait = 2s", "wait"),
        ("via = a expire = 5s", "expire"),
        ("via = a b, expire = 5s", "b"),
        ("key = \"a\" shared", "shared"),
        ("key = \"a\" renew, wait = 2s", "renew"),
        ("expire = 5s fair", "fair"),
        ("renew max_hold = 1m", "max_hold"),
        ("shared reentrant", "reentrant"),
        ("reentrant wait = 2s", "wait"),
    ] {
        assert_eq!(
            mistakes(source),
            [format!("expected `,` before `{before}`")]
        );
    }
    assert_mistakes(&[
        ("key = \"a\";", &["arguments are separated by `,`"]),
        (
            "key = \"a\"; renew; expire = 5s",
            &["arguments are separated by `,`"; 2],
        ),
    ]);
}

#[test]
fn the_key_is_a_string() {
    let message = "the key is one string literal, with arguments in braces, such as `\"order:{id}\"`; for one that is \
                   computed, use `redlock.lock(key).hold(..)` instead of the attribute";
    for source in [
        "\"order:\".to_owned() + &id",
        "\"a:\" + id",
        "\"a:%s\" % id",
        "\"order:\" id",
        "order:{id}",
        "config::KEY",
        "ids",
        "format!(\"order:{}\", id)",
        "id",
        "format!(\"order:{ids}\")",
        "concat!(\"a:\", \"b\")",
        "b\"order\"",
        "5",
        "|o| key(o)",
    ] {
        assert_eq!(mistakes(&format!("key = {source}")), [message], "{source}");
    }
}
