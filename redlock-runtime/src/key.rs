//! How placeholders become a key: so that no two calls share one by accident.
//!
//! A value that contains a separator of its template could be taken for two values:
//! `"{shop}:{item}"` would be `a:b:c` for `a:b` and `c` as for `a` and `b:c`. So in every value
//! the template's separators are percent-encoded, and `%` with them. Numbers, ids and plain words
//! contain none and stay as they are, readable, and the same for clients of other libraries.

use std::{
    cell::Cell,
    fmt::{self, Write},
};

/// A key, and whether one of its placeholders came out empty.
#[derive(Debug)]
pub struct Key {
    pub(crate) text: String,
    pub(crate) empty: Option<&'static str>,
}

/// The values of a template's placeholders.
#[derive(Debug)]
pub struct Values {
    separators: &'static str,
    empty: Cell<Option<&'static str>>,
}

/// One value, formatted and encoded. Writes itself as it is under every format trait, because its
/// own format specification has been obeyed before.
pub struct Value(String);

impl Values {
    /// `separators`: what must not stand in a value as it is.
    pub const fn new(separators: &'static str) -> Self {
        Self {
            separators,
            empty: Cell::new(None),
        }
    }

    /// A value with the template's separators encoded.
    #[track_caller]
    pub fn encoded(&self, name: &'static str, value: fmt::Arguments<'_>) -> Value {
        let is_plain = |it: char| it != '%' && !self.separators.contains(it);
        let mut text = formatted(value);
        if !text.chars().all(is_plain) {
            let encoded = text.chars().map(|it| match is_plain(it) {
                true => it.to_string(),
                false => format!("%{:02X}", u32::from(it)),
            });
            text = encoded.collect();
        }
        self.checked(name, text)
    }

    /// A value as it is: `{name!raw}`.
    #[track_caller]
    pub fn raw(&self, name: &'static str, value: fmt::Arguments<'_>) -> Value {
        self.checked(name, formatted(value))
    }

    /// The key that the values were put into.
    pub fn key(self, text: String) -> Key {
        Key {
            text,
            empty: self.empty.get(),
        }
    }

    fn checked(&self, name: &'static str, text: String) -> Value {
        if text.is_empty() && self.empty.get().is_none() {
            self.empty.set(Some(name));
        }
        Value(text)
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Self { text, empty: None }
    }
}

/// A key without placeholders.
impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

/// The user's type may fail where none may: its panic has the place of the attribute.
#[track_caller]
fn formatted(value: fmt::Arguments<'_>) -> String {
    let mut text = String::new();
    text.write_fmt(value)
        .expect("a formatting trait implementation returned an error");
    text
}

/// So many characters of a key, which may be made of what a client has sent.
const LONGEST_SHOWN: usize = 300;

/// A key in a text: on one line, and not all of a long one.
pub(crate) fn shown(text: &str) -> impl fmt::Display {
    let mut shown = String::new();
    for character in text.chars().take(LONGEST_SHOWN) {
        match character.is_control() {
            true => shown.extend(character.escape_debug()),
            false => shown.push(character),
        }
    }
    if text.chars().nth(LONGEST_SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

macro_rules! written_as_it_is {
    ($($format:ident)*) => {$(
        impl fmt::$format for Value {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

written_as_it_is!(Binary Debug Display LowerExp LowerHex Octal Pointer UpperExp UpperHex);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_shown_on_one_short_line() {
        let long = "x".repeat(LONGEST_SHOWN + 1);
        for (key, expected) in [
            ("stock:\"été\"\\", "stock:\"été\"\\"),
            ("a\nb\r\u{1b}[2J\0", "a\\nb\\r\\u{1b}[2J\\0"),
            (&long[1..], &long[1..]),
            (&long, &format!("{}…", &long[1..])),
        ] {
            assert_eq!(shown(key).to_string(), expected);
        }
    }

    #[test]
    fn a_specification_is_obeyed_once() {
        let values = Values::new(":");
        let value = values.encoded("n", format_args!("{:05}", 7));
        assert_eq!(
            format!("{value:09}|{value:?}|{value:x}"),
            "00007|00007|00007"
        );
    }
}
