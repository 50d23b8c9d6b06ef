//! Durations: `500ms`, `5s`, `1.5m`, `30` (seconds), the path of a constant, or what an argument has,
//! such as `config.lease`.

use proc_macro2::{Literal, Span, TokenStream};
use syn::{Error, Result};

use crate::given::Given;
use crate::tokens::ungrouped;

/// The units, with their milliseconds. None starts with `e`: such a suffix does not even lex.
const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

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
    if let Ok(literal) = syn::parse2::<Literal>(ungrouped(value.clone())) {
        let text = literal.to_string();
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            let known = from_literal(&literal, &text).map(Given::Known);
            return known.map_err(|message| Error::new(literal.span(), message));
        }
    }
    let given = Given::parse(value.clone(), arguments);
    given.unwrap_or_else(|| Err(Error::new_spanned(value, takes(name))))
}

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
    let (_, unit) = split_unit(text);
    let is_unit = UNITS.iter().any(|(name, _)| *name == unit);
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
        None => Err(format!(
            "`{text}` is not a duration, which is one decimal number and `ms`, `s`, `m` or `h`"
        )),
    }
}

/// The milliseconds of what is correct as one token.
fn to_millis(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text);
    let number = number.replace('_', "");
    let factor = match unit {
        "" if number.contains('.') => return None,
        "" => 1_000,
        _ => UNITS.iter().find(|(name, _)| *name == unit)?.1,
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
mod tests;
