//! Durations: `500ms`, `5s`, `1.5m`, `30` (seconds), the path of a constant, or what an argument has,
//! such as `config.lease`.

mod meaning;

use std::fmt::Display;

use proc_macro2::{Delimiter, Ident, Literal, Span, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::{Error, Expr, ExprPath, Result, UnOp};

use quote::ToTokens;

use self::meaning::remedy;
use crate::tokens::{for_each_ident, joined, ungrouped};

/// The units, with their milliseconds. None starts with `e`: such a suffix does not even lex.
const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// Other libraries count milliseconds. From here on, a number needs its unit.
const LONGEST_WITHOUT_UNIT: u64 = 1_000_000;

pub(crate) enum Duration {
    Known(Known),
    /// A constant of type `std::time::Duration`, whose value is known to rustc only; or an argument.
    Path(ExprPath),
    /// A field or what a method returns, known when the function is called.
    Computed(Box<Expr>),
}

/// A literal.
pub(crate) struct Known {
    pub(crate) millis: u64,
    /// As written, but never without a unit.
    pub(crate) text: String,
    pub(crate) span: Span,
}

impl Duration {
    /// Reads everything that stands between the `=` of the argument `name` and the next comma.
    pub(crate) fn parse(name: &str, value: TokenStream) -> Result<Self> {
        let tokens: Vec<TokenTree> = ungrouped(value.clone()).into_iter().collect();
        if let [TokenTree::Literal(literal)] = tokens.as_slice() {
            let known = from_literal(name, literal).map(Self::Known);
            return known.map_err(|message| Error::new(literal.span(), message));
        }
        match syn::parse2(tokens.iter().cloned().collect()) {
            Ok(Expr::Path(path)) => Ok(Self::Path(path)),
            Ok(expression) if is_computed(&expression) => {
                let awaited = awaited("a duration", &expression);
                awaited.map_or_else(|| Ok(Self::Computed(Box::new(expression))), Err)
            }
            _ => Err(Error::new_spanned(value, mistake(name, &tokens))),
        }
    }

    /// Of a function with these arguments, what is known only when it is called.
    pub(crate) fn computed(&self, arguments: &[String]) -> Option<Expr> {
        match self {
            Self::Computed(expression) => Some(Expr::clone(expression)),
            Self::Path(path) => {
                let is_argument = |name: &Ident| arguments.contains(&name.unraw().to_string());
                let argument = path.path.get_ident().filter(|name| is_argument(name));
                argument.map(|_| Expr::Path(path.clone()))
            }
            Self::Known(_) => None,
        }
    }

    pub(crate) fn known(&self) -> Option<&Known> {
        match self {
            Self::Known(known) => Some(known),
            Self::Path(_) | Self::Computed(_) => None,
        }
    }

    /// The mistake of `*LEASE`, which is no reference.
    pub(crate) fn wrong_deref(&self, arguments: &[String]) -> Option<Error> {
        let Self::Computed(expression) = self else {
            return None;
        };
        let Expr::Unary(unary) = &**expression else {
            return None;
        };
        let Expr::Path(path) = &*unary.expr else {
            return None;
        };
        let value = Self::Path(path.clone());
        let value = value.constant(arguments)?.to_token_stream();
        let message = format!("write `{value}` without the `*`");
        Some(Error::new_spanned(unary, message))
    }

    /// Of a function with these arguments, what rustc knows the value of.
    pub(crate) fn constant(&self, arguments: &[String]) -> Option<&ExprPath> {
        match self {
            Self::Path(path) => Some(path).filter(|_| self.computed(arguments).is_none()),
            Self::Known(_) | Self::Computed(_) => None,
        }
    }
}

/// Whether it is a field or a method of something that is not a number.
pub(crate) fn is_computed(expression: &Expr) -> bool {
    let of = match expression {
        Expr::Field(field) => &field.base,
        Expr::MethodCall(call) => &call.receiver,
        Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => {
            return is_computed(&unary.expr) || matches!(*unary.expr, Expr::Path(_));
        }
        _ => return false,
    };
    !matches!(**of, Expr::Lit(_))
}

fn is_path_or_computed(text: &str) -> bool {
    let expression = syn::parse_str(text);
    expression.is_ok_and(|it| matches!(it, Expr::Path(_)) || is_computed(&it))
}

/// The mistake of one that waits for its value.
pub(crate) fn awaited(what: &str, expression: &Expr) -> Option<Error> {
    let mut place = None;
    for_each_ident(expression.to_token_stream(), &mut |ident| {
        if ident == "await" {
            place = Some(ident.span());
        }
    });
    let message =
        format!("{what} cannot be awaited; make it an argument, or await it in the caller");
    place.map(|place| Error::new(place, message))
}

fn from_literal(name: &str, literal: &Literal) -> std::result::Result<Known, String> {
    let text = literal.to_string();
    if !text.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(not_a_number(name, &text));
    }
    let Some(millis) = to_millis(&text) else {
        return Err(not_a_duration(&text));
    };
    if millis >= LONGEST_WITHOUT_UNIT && split_unit(&text).1.is_empty() {
        return Err(format!(
            "a number without a unit counts seconds; write `{text}ms`, or `{text}s` if it is as long"
        ));
    }
    let unit = if split_unit(&text).1.is_empty() {
        "s"
    } else {
        ""
    };
    Ok(Known {
        millis,
        text: format!("{text}{unit}"),
        span: literal.span(),
    })
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
    if whole.is_empty() || !scaled.is_multiple_of(one) {
        return None;
    }
    u64::try_from(scaled / one).ok()
}

fn split_unit(text: &str) -> (&str, &str) {
    let is_number = |c: char| c.is_ascii_digit() || c == '_' || c == '.';
    text.split_at(text.find(|c| !is_number(c)).unwrap_or(text.len()))
}

/// `problem; write ...`, or the problem alone if nothing is known that means the same.
fn with_remedy(problem: impl Display, text: &str) -> String {
    match remedy(text) {
        Some(remedy) => format!("{problem}; write {remedy}"),
        None => problem.to_string(),
    }
}

/// For a number that is not a duration.
fn not_a_duration(text: &str) -> String {
    if ["0x", "0o", "0b"]
        .iter()
        .any(|radix| text.starts_with(radix))
    {
        return with_remedy("a duration is a decimal number", text);
    }
    let (number, unit) = split_unit(text);
    if meaning::is_exponent(unit) {
        return with_remedy("a duration has no exponent", text);
    }
    if unit.is_empty() && number.contains('.') {
        return with_remedy("a fraction needs a unit", text);
    }
    let is_unit = unit.is_empty() || UNITS.iter().any(|(name, _)| *name == unit);
    if is_unit && meaning::is_fraction_of_millisecond(text) {
        return with_remedy(
            format_args!("`{text}` is not a whole number of milliseconds"),
            text,
        );
    }
    if is_unit {
        return format!("`{text}` is too long for a duration");
    }
    let problem = if unit.contains(|c: char| c.is_ascii_digit()) && !meaning::is_number_type(unit) {
        format!("a duration is one number with one unit, not `{text}`")
    } else {
        format!("no unit `{unit}`; the units are `ms`, `s`, `m` and `h`")
    };
    match remedy(text) {
        Some(remedy) => format!("{problem}: write {remedy}"),
        None => problem,
    }
}

/// For a string, a character or a byte string.
fn not_a_number(name: &str, text: &str) -> String {
    let inside = text
        .split_once(['"', '\''])
        .and_then(|(_, inside)| inside.rsplit_once(['"', '\'']));
    let inside = inside.map_or("", |(inside, _)| inside);
    let iso = inside.strip_prefix("PT").map(str::to_lowercase);
    let inside = iso.as_deref().unwrap_or(inside);
    let is_placeholder = inside.contains(['{', '$', '#']);
    match remedy(inside) {
        Some(remedy) if to_millis(&inside.replace(' ', "")).is_some() => {
            format!("expected a duration; write {remedy} without the quotes")
        }
        Some(remedy) => format!("expected a duration; write {remedy}"),
        None if is_placeholder => no_duration(name),
        None => "expected a duration, such as `5s`".to_owned(),
    }
}

/// For what is neither a literal nor a path.
fn mistake(name: &str, tokens: &[TokenTree]) -> String {
    let text = joined(tokens);
    match tokens {
        [TokenTree::Group(group)] => {
            let brackets = match group.delimiter() {
                Delimiter::Brace => "braces",
                Delimiter::Bracket => "brackets",
                Delimiter::Parenthesis | Delimiter::None => "parentheses",
            };
            let inside = joined(&group.stream().into_iter().collect::<Vec<_>>());
            if to_millis(&inside).is_some() || is_path_or_computed(&inside) {
                return format!("write `{inside}` without the {brackets}");
            }
            one_token(name, remedy(&inside))
        }
        [TokenTree::Ident(some), TokenTree::Group(group)] if some == "Some" => {
            let inside = joined(&group.stream().into_iter().collect::<Vec<_>>());
            match to_millis(&inside) {
                Some(_) => format!("write `{inside}` without the `Some`"),
                None => no_duration(name),
            }
        }
        // `5.seconds()`, or `5s.into()`
        [
            TokenTree::Literal(number),
            TokenTree::Punct(dot),
            TokenTree::Ident(method),
            TokenTree::Group(_),
        ] if dot.as_char() == '.' => {
            let with_unit = remedy(&format!("{number} {method}"));
            one_token(name, with_unit.or_else(|| remedy(&number.to_string())))
        }
        [
            TokenTree::Literal(number),
            TokenTree::Ident(word),
            TokenTree::Ident(_),
        ] if word == "as" => one_token(name, remedy(&number.to_string())),
        [TokenTree::Punct(sign), positive @ ..] if sign.as_char() == '-' => {
            with_remedy("a duration cannot be negative", &joined(positive))
        }
        [TokenTree::Punct(sign), value @ ..] if ['+', '&', '*'].contains(&sign.as_char()) => {
            let value = joined(value);
            match is_path_or_computed(&value) {
                true => format!("write `{value}` without the `{sign}`"),
                false => with_remedy("a duration is one token", &value),
            }
        }
        [TokenTree::Ident(_), ..] => match remedy(&text) {
            Some(remedy) => format!("expected a duration; write {remedy}"),
            None => no_duration(name),
        },
        [TokenTree::Literal(_), ..] if remedy(&text).is_none() => format!(
            "`{text}` is not worked out; write one token, such as `5s`, or the path of a constant"
        ),
        _ => one_token(name, remedy(&text)),
    }
}

fn one_token(name: &str, remedy: Option<String>) -> String {
    match remedy {
        Some(remedy) => format!("a duration is one token: write {remedy}"),
        None => no_duration(name),
    }
}

/// What the attribute cannot read, and what it can.
fn no_duration(name: &str) -> String {
    let alone = match name {
        "renew" => " stands alone for a third of `expire`, or",
        _ => "",
    };
    format!(
        "`{name}`{alone} takes a literal such as `5s`, the path of a constant, or an argument with its \
         fields and methods, such as `config.lease`"
    )
}

#[cfg(test)]
pub(crate) mod tests;
