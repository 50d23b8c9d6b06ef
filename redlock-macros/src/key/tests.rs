use super::*;

const NAMES: [&str; 7] = ["a", "b", "id", "req", "self", "type", "width"];

fn names() -> Vec<String> {
    NAMES.map(str::to_owned).to_vec()
}

fn template(key: &str) -> Template {
    Template::parse(LitStr::new(key, Span::call_site())).unwrap()
}

fn mistakes(key: &str) -> Vec<String> {
    match Template::parse(LitStr::new(key, Span::call_site())) {
        Ok(_) => panic!("{key} is accepted"),
        Err(all) => all.into_iter().map(|mistake| mistake.to_string()).collect(),
    }
}

#[test]
fn separators_stand_between_values() {
    let separators = |key: &str| template(key).separators(&names());
    assert_eq!(separators("/x-{a}.{{"), ":");
    assert_eq!(separators("x-{a}/{b}-{id}.y"), ":/-");
    assert_eq!(separators("{SHARD}-{a}:{SHARD}/{b}-{SHARD}"), ":/");
    assert_eq!(separators("{a}%:\"{b}"), ":\"");
}

#[test]
fn values_that_run_into_each_other() {
    let corrected = |key: &str| -> Vec<(String, String)> {
        let ambiguities = template(key).ambiguities(&names());
        let pairs = ambiguities.into_iter();
        pairs.map(|it| (it.written, it.corrected)).collect()
    };
    let one = |written: &str, corrected: &str| vec![(written.to_owned(), corrected.to_owned())];
    assert_eq!(corrected("{a}{b}"), one("{a}{b}", "{a}:{b}"));
    assert_eq!(corrected("x:{a:?} {b}:y"), one("{a:?} {b}", "{a:?}:{b}"));
    assert_eq!(corrected("{a}x{b}"), one("{a}x{b}", "{a}:x:{b}"));
    assert_eq!(corrected("{a}%{b}"), one("{a}%{b}", "{a}:%:{b}"));
    assert_eq!(corrected("{a}·{req.b()}").len(), 1);
    assert_eq!(
        corrected("{a}{SHARD}{b}"),
        one("{a}{SHARD}{b}", "{a}:{SHARD}:{b}")
    );
    assert_eq!(corrected("{a}{b}{id}").len(), 2);
    for key in [
        "{a}:{b}",
        "{a}x-y{b}",
        "{a}{{{b}",
        "{SHARD}{a}",
        "{a}{SHARD}",
        "{a}{b!raw}",
        "{a!raw}{b}",
    ] {
        assert_eq!(corrected(key), [], "{key}");
    }
}

#[test]
fn lone_braces() {
    let unclosed = "unclosed `{` in the key; write `{{` for a brace that is part of the key";
    let unopened = "unopened `}` in the key; write `}}` for a brace that is part of the key";
    assert_eq!(mistakes("order:{id"), [unclosed]);
    assert_eq!(mistakes("{"), [unclosed]);
    assert_eq!(mistakes("{{{"), [unclosed]);
    assert_eq!(mistakes("{a:{b}}"), [unclosed]);
    assert_eq!(mistakes("order:id}"), [unopened]);
    assert_eq!(mistakes("{a}}"), [unopened]);
}

#[test]
fn every_placeholder_is_checked() {
    assert_eq!(mistakes("{} {a} {0} {").len(), 3);
}
