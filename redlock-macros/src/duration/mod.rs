//! Durations: `500ms`, `5s`, `1.5m`, `30` (seconds), the path of a constant, or what an argument has,
//! such as `config.lease`.

use proc_macro2::{Literal, Span, TokenStream, TokenTree};
use syn::{Error, Result};

use crate::given::Given;
use crate::tokens::{joined, ungrouped};

/// The units, with their milliseconds, and what users write for them. None starts with `e`: such a
/// suffix does not even lex.
const UNITS: [(&str, u64, &str); 4] = [
    ("ms", 1, "msec msecs milli millis millisecond milliseconds"),
    ("s", 1_000, "sec secs second seconds"),
    ("m", 60_000, "min mins minute minutes"),
    ("h", 3_600_000, "hr hrs hour hours"),
];

/// Other libraries count milliseconds: a larger number needs its unit.
const MOST_WITHOUT_UNIT: u64 = 60_000;

pub(crate) type Duration = Given<Known>;

/// A literal.
pub(crate) struct Known {
    pub(crate) millis: u64,
    /// As written, but never without a unit.
    pub(crate) text: String,
    pub(crate) span: Span,
}

/// Reads everything that stands between the `=` of the argument `name` and the next comma.
pub(crate) fn parse(name: &str, value: TokenStream, arguments: &[String]) -> Result<Duration> {
    let tokens: Vec<TokenTree> = ungrouped(value.clone()).into_iter().collect();
    let text = joined(&tokens).replace(' ', "");
    let is_word = WORDS.contains(&text.as_str()) && !arguments.contains(&text);
    let message = match tokens.as_slice() {
        [TokenTree::Literal(literal)] if text.starts_with(|first: char| first.is_ascii_digit()) => {
            let known = from_literal(literal, &text).map(Given::Known);
            return known.map_err(|message| Error::new(literal.span(), message));
        }
        // `"5s"`
        [TokenTree::Literal(_)] => match corrected(text.trim_matches(['"', '\''])) {
            Some(corrected) => format!("write `{corrected}` without quotes"),
            None => takes(name),
        },
        _ if is_word => takes(name),
        tokens => match Given::parse(value.clone(), arguments) {
            Some(given) => return given,
            None => match (tokens, corrected(&text)) {
                // `5 min`, but not `-5s`
                ([TokenTree::Literal(_), ..], Some(corrected)) => {
                    format!("a duration is one token; write `{corrected}`")
                }
                _ => takes(name),
            },
        },
    };
    Err(Error::new_spanned(value, message))
}

/// Words for a default or for no limit.
const WORDS: [&str; 10] = [
    "forever",
    "infinite",
    "unlimited",
    "never",
    "none",
    "None",
    "true",
    "false",
    "yes",
    "no",
];

/// What the argument takes.
fn takes(name: &str) -> String {
    let alone = match name {
        "wait" => "; for no limit, `std::time::Duration::MAX`",
        "max_hold" => "; leave it out for no limit",
        "renew" => "; alone, it renews after every third of `expire`",
        _ => "",
    };
    format!(
        "`{name}` takes a literal such as `5s`, the path of a constant, or an argument with its \
         fields and methods{alone}"
    )
}

fn from_literal(literal: &Literal, text: &str) -> std::result::Result<Known, String> {
    let (number, unit) = split_unit(text);
    let is_unit = UNITS.iter().any(|(name, ..)| *name == unit);
    let span = literal.span();
    match to_millis(text) {
        Some(millis) if !unit.is_empty() => Ok(Known {
            millis,
            text: text.to_owned(),
            span,
        }),
        Some(millis) if millis <= MOST_WITHOUT_UNIT => Ok(Known {
            millis,
            text: format!("{text}s"),
            span,
        }),
        Some(_) => Err(format!(
            "this number needs a unit; write `{text}ms` or `{text}s`"
        )),
        None if is_unit => Err(format!(
            "`{text}` is not a whole number of milliseconds, or too long"
        )),
        None if unit.is_empty() && number.contains('.') => Err(format!(
            "a fraction needs a unit; write `{text}s`, or another unit"
        )),
        None => {
            let problem = format!(
                "`{text}` is not a duration, which is one decimal number and `ms`, `s`, `m` or `h`"
            );
            let remedy = corrected(text).map(|it| format!("; write `{it}`"));
            Err(problem + &remedy.unwrap_or_default())
        }
    }
}

/// The literal with a unit of ours, if that makes it a duration.
fn corrected(text: &str) -> Option<String> {
    let text = text.replace(' ', "");
    let (number, word) = split_unit(&text);
    let word = word.to_lowercase();
    let is_meant = |(name, _, words): &&(&str, u64, &str)| {
        *name == word || words.split(' ').any(|known| known == word)
    };
    let (unit, ..) = UNITS.iter().find(is_meant)?;
    let corrected = format!("{number}{unit}");
    to_millis(&corrected).map(|_| corrected)
}

/// The milliseconds of what is correct as one token.
fn to_millis(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text);
    let number = number.replace('_', "");
    let factor = match unit {
        "" if number.contains('.') => return None,
        "" => 1_000,
        _ => UNITS.iter().find(|(name, ..)| *name == unit)?.1,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    let one = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let scaled = digits.checked_mul(u128::from(factor))?;
    if whole.is_empty() || number.ends_with('.') || !scaled.is_multiple_of(one) {
        return None;
    }
    u64::try_from(scaled / one).ok()
}

fn split_unit(text: &str) -> (&str, &str) {
    let is_number = |c: char| c.is_ascii_digit() || c == '_' || c == '.';
    text.split_at(text.find(|c| !is_number(c)).unwrap_or(text.len()))
}

#[cfg(test)]
pub(crate) mod tests;
