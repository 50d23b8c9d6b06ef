//! Durations: `500ms`, `5s`, `1.5m`, `30` (seconds), or the path of a constant.

use proc_macro2::{Literal, Span, TokenStream, TokenTree};
use syn::{Error, ExprPath, Result};

use crate::tokens::ungrouped;

/// The units, with their milliseconds. None starts with `e`: such a suffix does not even lex.
const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// For messages in which the user's own words are of no use.
const EXAMPLE: &str = "5s";

pub(crate) enum Duration {
    Known(Known),
    /// A constant of type `std::time::Duration`; its value is known to rustc only.
    Constant(ExprPath),
}

/// A literal.
pub(crate) struct Known {
    pub(crate) millis: u64,
    /// As written, but never without a unit.
    pub(crate) text: String,
    pub(crate) span: Span,
}

impl Duration {
    /// Reads everything that stands between an argument's `=` and the next comma.
    pub(crate) fn parse(value: TokenStream) -> Result<Self> {
        let tokens: Vec<TokenTree> = ungrouped(value.clone()).into_iter().collect();
        let message = match tokens.as_slice() {
            [TokenTree::Literal(literal)] => return from_literal(literal).map(Self::Known),
            [TokenTree::Punct(sign), positive @ ..] if sign.as_char() == '-' => {
                format!(
                    "a duration cannot be negative; write `{}`",
                    joined(positive)
                )
            }
            [TokenTree::Literal(_), ..] => {
                format!("a duration is one token: write `{}`", joined(&tokens))
            }
            _ => match syn::parse2(tokens.iter().cloned().collect()) {
                Ok(path) => return Ok(Self::Constant(path)),
                Err(_) => not_a_duration(&joined_text(&tokens)),
            },
        };
        Err(Error::new_spanned(value, message))
    }

    pub(crate) fn known(&self) -> Option<&Known> {
        match self {
            Self::Known(known) => Some(known),
            Self::Constant(_) => None,
        }
    }

    pub(crate) fn constant(&self) -> Option<&ExprPath> {
        match self {
            Self::Known(_) => None,
            Self::Constant(path) => Some(path),
        }
    }
}

fn from_literal(literal: &Literal) -> Result<Known> {
    let text = literal.to_string();
    let span = literal.span();
    if !starts_with_digit(&text) {
        return Err(Error::new(span, not_a_number(&text)));
    }
    let millis = to_millis(&text).map_err(|message| Error::new(span, message))?;
    let unit = if split_unit(&text).1.is_empty() {
        "s"
    } else {
        ""
    };
    Ok(Known {
        millis,
        text: format!("{text}{unit}"),
        span,
    })
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
}

/// Whether it would do if it were written as one token.
fn is_duration(text: &str) -> bool {
    starts_with_digit(text) && to_millis(text).is_ok()
}

/// The milliseconds of a numeric literal, or what is wrong with it.
fn to_millis(text: &str) -> std::result::Result<u64, String> {
    if text.starts_with("0x") || text.starts_with("0o") || text.starts_with("0b") {
        return Err(not_decimal(text));
    }
    let (number, unit) = split_unit(text);
    let number = number.replace('_', "");
    if unit.starts_with(['e', 'E']) {
        return Err(exponent(text));
    }
    if unit.is_empty() && number.contains('.') {
        let number = number.trim_end_matches('.');
        return Err(format!("a fraction needs a unit; write `{number}s`"));
    }
    let named = if unit.is_empty() { "s" } else { unit };
    let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == named) else {
        return Err(no_unit(&number, unit));
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    let too_long = || format!("`{text}` is too long for a duration");
    let (millis, is_exact) = scale(whole, fraction, *factor).ok_or_else(too_long)?;
    if !is_exact {
        let above = millis + 1;
        return Err(format!(
            "`{text}` is not a whole number of milliseconds; write `{above}ms`"
        ));
    }
    Ok(millis)
}

/// `whole.fraction × factor`, rounded down, and whether nothing had to be rounded.
fn scale(whole: &str, fraction: &str, factor: u64) -> Option<(u64, bool)> {
    let one = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let scaled = digits.checked_mul(u128::from(factor))?;
    Some((
        u64::try_from(scaled / one).ok()?,
        scaled.is_multiple_of(one),
    ))
}

fn split_unit(text: &str) -> (&str, &str) {
    let is_number = |c: char| c.is_ascii_digit() || c == '_' || c == '.';
    text.split_at(text.find(|c| !is_number(c)).unwrap_or(text.len()))
}

fn not_decimal(text: &str) -> String {
    let decimal =
        text.parse::<Literal>()
            .ok()
            .map(syn::Lit::new)
            .and_then(|literal| match literal {
                syn::Lit::Int(literal) => Some(literal.base10_digits().to_owned()),
                _ => None,
            });
    let decimal = decimal.unwrap_or_default();
    format!("a duration is a decimal number; write `{decimal}s`")
}

fn exponent(text: &str) -> String {
    let number = text.trim_end_matches(char::is_alphabetic);
    let unit = if number.len() < text.len() {
        &text[number.len()..]
    } else {
        "s"
    };
    let written = number
        .replace('_', "")
        .parse::<f64>()
        .map(|number| format!("{number}{unit}"));
    let example = written.ok().filter(|written| is_duration(written));
    format!(
        "a duration has no exponent; write `{}`",
        example.as_deref().unwrap_or(EXAMPLE)
    )
}

fn no_unit(number: &str, unit: &str) -> String {
    let starts = |beginnings: &[&str]| {
        beginnings
            .iter()
            .any(|beginning| unit.to_lowercase().starts_with(beginning))
    };
    let example = match number.parse::<u32>() {
        _ if starts(&["mic", "nan", "us", "ns", "µ"]) => "1ms".to_owned(),
        Ok(days) if starts(&["d"]) => format!("{}h", u64::from(days) * 24),
        _ if starts(&["ms", "mil"]) => format!("{number}ms"),
        _ if starts(&["m"]) => format!("{number}m"),
        _ if starts(&["h"]) => format!("{number}h"),
        _ => format!("{number}s"),
    };
    format!("no unit `{unit}`; the units are `ms`, `s`, `m` and `h`: write `{example}`")
}

/// For a string, a character or a byte string.
fn not_a_number(text: &str) -> String {
    let inner = text.trim_matches('"').replace(' ', "");
    if is_duration(&inner) {
        format!("expected a duration; write `{inner}` without the quotes")
    } else {
        format!("expected a duration; write `{EXAMPLE}`")
    }
}

/// For what is neither a literal nor a path. `Duration::from_secs(5)` gets its translation.
fn not_a_duration(text: &str) -> String {
    let call = text
        .split_once("Duration::from_")
        .and_then(|(_, call)| call.split_once('('));
    let literal = call.and_then(|(unit, number)| {
        let unit = match unit {
            "millis" => "ms",
            "secs" | "secs_f32" | "secs_f64" => "s",
            "mins" => "m",
            "hours" => "h",
            _ => return None,
        };
        Some(format!("{}{unit}", number.trim_end_matches(')')))
    });
    match literal.filter(|literal| is_duration(literal)) {
        Some(literal) => format!("expected a duration; write `{literal}`"),
        None => format!("expected a duration; write `{EXAMPLE}`, or the path of a constant"),
    }
}

/// The tokens as one duration if they make one: `5 s` and `5.s` are `5s`.
fn joined(tokens: &[TokenTree]) -> String {
    let text = joined_text(tokens).replace(".s", "s");
    if is_duration(&text) {
        text
    } else {
        EXAMPLE.to_owned()
    }
}

fn joined_text(tokens: &[TokenTree]) -> String {
    tokens.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(source: &str) -> u64 {
        match parse(source) {
            Ok(Duration::Known(known)) => known.millis,
            Ok(Duration::Constant(_)) => panic!("{source} is read as a path"),
            Err(error) => panic!("{source}: {error}"),
        }
    }

    fn parse(source: &str) -> Result<Duration> {
        Duration::parse(source.parse().unwrap())
    }

    fn mistake(source: &str) -> String {
        match parse(source) {
            Ok(_) => panic!("{source} is accepted"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn units() {
        assert_eq!(millis("500ms"), 500);
        assert_eq!(millis("5s"), 5_000);
        assert_eq!(millis("2m"), 120_000);
        assert_eq!(millis("1h"), 3_600_000);
        assert_eq!(millis("30"), 30_000);
        assert_eq!(millis("1_000ms"), 1_000);
        assert_eq!(millis("0s"), 0);
    }

    #[test]
    fn fractions() {
        assert_eq!(millis("0.5s"), 500);
        assert_eq!(millis("1.5h"), 5_400_000);
        assert_eq!(millis("0.0001m"), 6);
        assert_eq!(millis("1.000ms"), 1);
        assert_eq!(mistake("1.5"), "a fraction needs a unit; write `1.5s`");
        assert_eq!(
            mistake("1.5ms"),
            "`1.5ms` is not a whole number of milliseconds; write `2ms`"
        );
    }

    #[test]
    fn limits() {
        assert_eq!(millis("18446744073709551615ms"), u64::MAX);
        assert_eq!(
            mistake("18446744073709551616ms"),
            "`18446744073709551616ms` is too long for a duration"
        );
        assert!(mistake(&format!("{}h", "9".repeat(50))).ends_with("is too long for a duration"));
    }

    #[test]
    fn text_has_a_unit() {
        for (source, written) in [("5", "5s"), ("5s", "5s"), ("1_000ms", "1_000ms")] {
            assert!(matches!(parse(source), Ok(Duration::Known(known)) if known.text == written));
        }
    }

    #[test]
    fn paths() {
        for source in [
            "LEASE",
            "config::LEASE",
            "Self::LEASE",
            "<T as Leased>::LEASE",
        ] {
            assert!(
                matches!(parse(source), Ok(Duration::Constant(_))),
                "{source}"
            );
        }
    }

    #[test]
    fn unknown_units() {
        let no_unit = |unit: &str, write: &str| {
            format!("no unit `{unit}`; the units are `ms`, `s`, `m` and `h`: write `{write}`")
        };
        for (source, unit, write) in [
            ("5sec", "sec", "5s"),
            ("5S", "S", "5s"),
            ("5u64", "u64", "5s"),
            ("5min", "min", "5m"),
            ("5millis", "millis", "5ms"),
            ("5hours", "hours", "5h"),
            ("2d", "d", "48h"),
            ("7us", "us", "1ms"),
            ("1.5sec", "sec", "1.5s"),
        ] {
            assert_eq!(mistake(source), no_unit(unit, write));
        }
    }

    #[test]
    fn other_notations() {
        assert_eq!(mistake("1e3"), "a duration has no exponent; write `1000s`");
        assert_eq!(
            mistake("1e3ms"),
            "a duration has no exponent; write `1000ms`"
        );
        assert_eq!(
            mistake("0x5d"),
            "a duration is a decimal number; write `93s`"
        );
        assert_eq!(
            mistake("0b11"),
            "a duration is a decimal number; write `3s`"
        );
        assert_eq!(mistake("-5s"), "a duration cannot be negative; write `5s`");
        assert_eq!(mistake("-x"), "a duration cannot be negative; write `5s`");
    }

    #[test]
    fn several_tokens() {
        assert_eq!(mistake("5 s"), "a duration is one token: write `5s`");
        assert_eq!(mistake("7.s"), "a duration is one token: write `7s`");
        assert_eq!(mistake("7 min"), "a duration is one token: write `5s`");
        assert_eq!(mistake("5s + 1s"), "a duration is one token: write `5s`");
    }

    #[test]
    fn other_values() {
        assert_eq!(
            mistake("\"7s\""),
            "expected a duration; write `7s` without the quotes"
        );
        assert_eq!(
            mistake("\"7 s\""),
            "expected a duration; write `7s` without the quotes"
        );
        assert_eq!(mistake("\"soon\""), "expected a duration; write `5s`");
        assert_eq!(mistake("'5'"), "expected a duration; write `5s`");
        assert_eq!(
            mistake("Duration::from_secs(7)"),
            "expected a duration; write `7s`"
        );
        assert_eq!(
            mistake("time::Duration::from_millis(7)"),
            "expected a duration; write `7ms`"
        );
        let other = "expected a duration; write `5s`, or the path of a constant";
        assert_eq!(mistake("Duration::from_secs(n)"), other);
        assert_eq!(mistake("lease()"), other);
        assert_eq!(mistake("&LEASE"), other);
    }
}
