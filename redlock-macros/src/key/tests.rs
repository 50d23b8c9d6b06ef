use quote::quote;

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

#[track_caller]
fn assert_expands(key: &str, expected: TokenStream) {
    // `quote!` takes `0.1` for a number.
    let text = |tokens: TokenStream| tokens.to_string().replace(' ', "");
    assert_eq!(text(template(key).expand(&names())), text(expected));
}

fn encoded(written: &str, format: &str, value: TokenStream) -> TokenStream {
    quote!(__redis_lock::Values::encoded(
        &__values,
        #written,
        __redis_lock::std::format_args!(#format, #value)
    ))
}

/// What all keys with values have around the text.
fn key(separators: &str, text: TokenStream) -> TokenStream {
    quote! {
        {
            let __values = __redis_lock::Values::new(#separators);
            let __text = __redis_lock::std::format!(#text);
            __redis_lock::Values::key(__values, __text)
        }
    }
}

#[test]
fn text_is_not_formatted() {
    assert_expands("order", quote!("order"));
    assert_expands("a{{b}}", quote!("a{b}"));
}

#[test]
fn constants_are_not_encoded() {
    for key in ["order:{SHARD}", "{SHARD}{REGION:?}{{c}}", "{misspelt:>w$}"] {
        assert_expands(key, quote!(__redis_lock::std::format!(#key)));
    }
}

#[test]
fn plain_names_stay_in_the_literal() {
    let (a, b) = (
        encoded("a", "{}", quote!(a)),
        encoded("b", "{:?}", quote!(b)),
    );
    let literal = "x-{a}-{b:?}_{a}:{SHARD}/{{}}";
    assert_expands(literal, key(":-_", quote!(#literal, a = #a, b = #b)));
    let id = encoded("id", "{:>width$}", quote!(id));
    let literal = "{id:>width$}";
    assert_expands(literal, key(":", quote!(#literal, id = #id)));
}

#[test]
fn other_placeholders_are_positional() {
    let user = encoded("req.user", "{:>5}", quote!(req.user));
    let id = encoded("id", "{:03}", quote!(id));
    assert_expands(
        "{{{req.user:>5}}}{{{id:03}:{SHARD:?}",
        key(":}{", quote!("{{{}}}{{{}:{SHARD:?}", #user, #id)),
    );
    let raw = quote!(__redis_lock::Values::raw(
        &__values,
        "a",
        __redis_lock::std::format_args!("{:>5}", a)
    ));
    assert_expands("{a!raw:>5}", key(":", quote!("{}", #raw)));
}

#[test]
fn names_that_stand_for_two_things_are_positional() {
    let id = |spec: &str| encoded("id", spec, quote!(id));
    let (plain, debug) = (id("{}"), id("{:?}"));
    let literal = "{id}:{id:?}";
    assert_expands(literal, key(":", quote!("{}:{}", #plain, #debug)));
    let (wide, width) = (id("{:>width$}"), encoded("width", "{}", quote!(width)));
    let literal = "{id:>width$}:{width}";
    assert_expands(literal, key(":", quote!("{}:{}", #wide, #width)));
    // Not known here: it may be misspelt.
    let wide = id("{:>WIDTH$}");
    let literal = "{id:>WIDTH$}";
    assert_expands(literal, key(":", quote!("{}", #wide)));
}

#[test]
fn keywords_are_positional() {
    let (this, ty) = (
        encoded("self", "{}", quote!(self)),
        encoded("type", "{}", quote!(r#type)),
    );
    let literal = "{self}/{type}";
    assert_expands(literal, key(":/", quote!("{}/{}", #this, #ty)));
}

#[test]
fn specifications_that_rustc_refuses_are_left_to_it() {
    for key in ["{a:y}", "{a}:{b:y}", "{a:.}"] {
        assert_expands(key, quote!(__redis_lock::std::format!(#key)));
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
fn the_empty_key() {
    assert_eq!(mistakes(""), ["the key is empty"]);
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
