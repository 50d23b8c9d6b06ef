//! Arguments and keys that no one would type: whatever it is, the attribute answers, without a panic and in no time.

use proc_macro2::{Literal, TokenStream};
use quote::quote;
use redlock_fuzz::{Features, fuzz};

use crate::expand;

/// What mistakes are made of.
const ARGUMENTS: &str = r##"
    key expire wait renew max_hold at_least shared reentrant fair leader value permits weight lease name when_held
    on_error via crate keys EXPIRE kye
    = = = = , , , , ; : => == 5s 500ms 1m30s 1.5 .5s - + * 5*60 1e3 0x5 ( ) [ ] { }
    "order" "{id}" "order:{}" "5eons" b"k" '5' r"{o.id}" id |error| Ok(()) self . .. :: & ! ? # format! LEASE
    Duration::from_secs < > return async _ 'a / $
"##;

/// White space comes beside.
const KEYS: &str = r##"
    { } { } {{ }} id o o.id . () .await self r#type type !raw ! : :? :>5 :>w$ $ 0 1 .0 é % - _ :: stringify!(a) SHARD
    \ " .* # ? ( ) ² 🔒
"##;

/// White space comes beside.
const DURATIONS: &str = r#"
    0 1 5 9 60 0x 0b _ . e E e3 e- ever s ms m h sec min d us µs u64 + - * ( ) Duration::from_secs 99999999999999999999
    " ' é F ::
"#;

fn expand(arguments: TokenStream, features: &mut Features) {
    let item = quote!(
        async fn pay(&self, id: u64, o: &Order, r#type: u8) -> Result<(), E> {
            Ok(())
        }
    );
    let expansion = expand::redis_lock(arguments, item).to_string();
    assert!(!expansion.is_empty());
    match expansion.split_once("compile_error") {
        Some((_, message)) => features.add_message(message.split("async fn").next().unwrap_or("")),
        None => features.add(expansion.len() / 32),
    }
}

#[test]
fn fuzz_arguments() {
    let words = ARGUMENTS.split_whitespace();
    let words: Vec<String> = words.map(|word| format!(" {word} ")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut lexed = 0;
    fuzz("arguments", &words, |input, features| {
        if let Ok(arguments) = String::from_utf8_lossy(input).parse() {
            lexed += 1;
            expand(arguments, features);
        }
    });
    assert!(lexed > 100, "only {lexed} have tokens");
}

#[test]
fn fuzz_keys() {
    let words: Vec<&str> = KEYS.split_whitespace().chain([" ", "\n", "a b"]).collect();
    fuzz("keys", &words, |input, features| {
        let key = Literal::string(&String::from_utf8_lossy(input));
        expand(quote!(key = #key), features);
    });
}

/// Also those that do not lex: rustc reports them, and hands them on.
#[test]
fn fuzz_durations() {
    let words: Vec<&str> = DURATIONS.split_whitespace().chain([" "]).collect();
    fuzz("durations", &words, |input, features| {
        let text = String::from_utf8_lossy(input);
        expand(
            text.parse().map_or_else(
                |_| TokenStream::new(),
                |it: TokenStream| quote!(key = "k", expire = #it),
            ),
            features,
        );
    });
}

/// In place of a literal key of some thousand placeholders, and of nesting that no one writes.
#[test]
fn long_ones() {
    let key = Literal::string(&"{id}:{o.id!raw}-".repeat(2_000));
    expand(quote!(key = #key), &mut Features::default());
    let sum = "1s + ".repeat(2_000) + "1s";
    expand(
        format!("key = \"k\", expire = {sum}").parse().unwrap(),
        &mut Features::default(),
    );
    let nested = "(".repeat(100) + "5s" + &")".repeat(100);
    expand(
        format!("key = \"k\", expire = {nested}").parse().unwrap(),
        &mut Features::default(),
    );
}
