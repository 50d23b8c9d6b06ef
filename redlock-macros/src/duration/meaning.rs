//! What a duration means that is not written as one, so that the remedy means the same. Without
//! recursion, and nothing here can panic or overflow: it sees whatever a user has typed.

use super::{UNITS, to_millis};

/// Thousand millions: quantities are counted in billionths, of a second or of one.
const ONE: u128 = 1_000_000_000;

/// The words for units, and the billionths of a second that each has.
const WORDS: [(&[&str], u128); 8] = [
    (&["ns", "nsec", "nano", "nanosecond"], 1),
    (&["us", "µs", "μs", "usec", "micro", "microsecond"], 1_000),
    (&["ms", "msec", "milli", "millisecond"], 1_000_000),
    (&["s", "sec", "second"], ONE),
    (&["m", "min", "minute"], 60 * ONE),
    (&["h", "hr", "hour"], 3_600 * ONE),
    (&["d", "day"], 86_400 * ONE),
    (&["w", "wk", "week"], 604_800 * ONE),
];

const NUMBER_TYPES: [&str; 14] = [
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32",
    "f64",
];

/// A time, or a number without a unit.
#[derive(Clone, Copy)]
struct Quantity {
    billionths: u128,
    /// The smallest unit that the user wrote.
    unit: Option<u128>,
}

/// What to write instead, in backticks: one literal, or two if the time lies between them.
pub(super) fn remedy(text: &str) -> Option<String> {
    let Quantity { billionths, unit } = evaluate(text)?;
    if billionths / 1_000_000 >= u128::from(u64::MAX) {
        return None;
    }
    if !billionths.is_multiple_of(1_000_000) {
        let below = billionths / 1_000_000;
        let above = format!("`{}ms`", below + 1);
        return Some(match below {
            0 => above,
            _ => format!("`{below}ms` or {above}"),
        });
    }
    let literal = literal(billionths, unit.unwrap_or(ONE))?;
    let millis = to_millis(&literal).map(u128::from);
    (millis == Some(billionths / 1_000_000)).then(|| format!("`{literal}`"))
}

pub(super) fn is_fraction_of_millisecond(text: &str) -> bool {
    evaluate(text).is_some_and(|it| !it.billionths.is_multiple_of(1_000_000))
}

pub(super) fn is_number_type(word: &str) -> bool {
    NUMBER_TYPES.contains(&word)
}

/// Whether what follows a number is the end of `1e3` or `1e-3s`.
pub(super) fn is_exponent(unit: &str) -> bool {
    exponent(unit).is_some()
}

/// In the user's unit if it is one of ours and the number is a short one.
fn literal(billionths: u128, unit: u128) -> Option<String> {
    let ours = UNITS
        .iter()
        .rev()
        .map(|(name, millis)| (*name, u128::from(*millis) * 1_000_000));
    for (name, size) in ours.filter(|(_, size)| *size <= unit || *size == 1_000_000) {
        let whole = billionths / size;
        let rest = (billionths % size).checked_mul(1_000)?;
        if rest == 0 {
            return Some(format!("{whole}{name}"));
        }
        if rest.is_multiple_of(size) {
            let fraction = format!("{:03}", rest / size);
            return Some(format!("{whole}.{}{name}", fraction.trim_end_matches('0')));
        }
    }
    None
}

/// A sum of products of times such as `1m30s` and numbers.
fn evaluate(text: &str) -> Option<Quantity> {
    let (text, counted) = match constructor(text) {
        Some((inside, counted)) => (inside, Some(counted)),
        None => (text, None),
    };
    let mut sum: Option<Quantity> = None;
    for product in text.split('+') {
        let product = multiplied(product)?;
        sum = Some(match sum {
            None => product,
            Some(sum) => add(sum, product)?,
        });
    }
    let sum = sum?;
    match (counted, sum.unit) {
        (None, _) => Some(sum),
        (Some(unit), None) => scaled(sum.billionths, unit),
        (Some(_), Some(_)) => None,
    }
}

/// The inside of `Duration::from_secs(..)`, `Duration::new(.., 0)` and `seconds(..)`, however the
/// path begins.
fn constructor(text: &str) -> Option<(&str, u128)> {
    let (path, inside) = text.trim().split_once('(')?;
    let inside = inside.strip_suffix(')')?;
    let (before, name) = path.trim().rsplit_once(':').unwrap_or(("", path));
    let name = name.trim();
    if name == "new" && before.trim_end_matches([':', ' ']).ends_with("Duration") {
        let (whole, fraction) = inside.split_once(',')?;
        return (fraction.trim() == "0").then_some((whole, ONE));
    }
    let word = name.strip_prefix("from_").unwrap_or(name);
    let word = word.trim_end_matches("_f32").trim_end_matches("_f64");
    Some((inside, unit(word)?))
}

fn multiplied(text: &str) -> Option<Quantity> {
    let mut product = Quantity {
        billionths: ONE,
        unit: None,
    };
    for factor in text.split('*') {
        let factor = compound(factor.trim())?;
        if product.unit.is_some() && factor.unit.is_some() {
            return None;
        }
        product = Quantity {
            billionths: exactly(product.billionths, factor.billionths, ONE)?,
            unit: product.unit.or(factor.unit),
        };
    }
    Some(product)
}

/// `5`, `5 min`, `1h30m`.
fn compound(text: &str) -> Option<Quantity> {
    let mut sum: Option<Quantity> = None;
    let mut rest = text;
    while !rest.is_empty() {
        let (number, after) = number(rest)?;
        let after = after.trim_start();
        let end = after
            .find(|c: char| !c.is_alphabetic())
            .unwrap_or(after.len());
        let with_digits = after
            .find(|c: char| !c.is_alphanumeric())
            .unwrap_or(after.len());
        let (word, next) = match after.split_at(with_digits) {
            (word, next) if is_number_type(word) => ("", next),
            _ => after.split_at(end),
        };
        let part = match word {
            "" => Quantity {
                billionths: number,
                unit: None,
            },
            _ => scaled(number, unit(word)?)?,
        };
        sum = Some(match sum {
            None => part,
            // Not `5 60`, whatever that is.
            Some(sum) => add(sum, part).filter(|sum| sum.unit.is_some())?,
        });
        rest = next.trim_start();
    }
    sum
}

fn unit(word: &str) -> Option<u128> {
    let word = word.to_lowercase();
    let is = |known: &str| word == known || (known.len() > 1 && word == format!("{known}s"));
    let unit = WORDS
        .iter()
        .find(|(words, _)| words.iter().any(|known| is(known)));
    unit.map(|(_, size)| *size)
}

/// The number that `text` starts with, in billionths, and what follows.
fn number(text: &str) -> Option<(u128, &str)> {
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            let is_in = |c: char| c == '_' || c.is_digit(radix);
            let end = digits.find(|c| !is_in(c)).unwrap_or(digits.len());
            let number = u128::from_str_radix(&digits[..end].replace('_', ""), radix).ok()?;
            return Some((number.checked_mul(ONE)?, &digits[end..]));
        }
    }
    let (digits, after) = super::split_unit(text);
    let digits = digits.replace('_', "");
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let (power, after) = exponent(after).unwrap_or((0, after));
    let power = power
        .checked_sub(i32::try_from(fraction.len()).ok()?)?
        .checked_add(9)?;
    let number: u128 = format!("{whole}{fraction}").parse().ok()?;
    let factor = 10_u128.checked_pow(power.unsigned_abs())?;
    if power >= 0 {
        return Some((number.checked_mul(factor)?, after));
    }
    number
        .is_multiple_of(factor)
        .then_some((number / factor, after))
}

/// The power at the start of `text`, and what follows. `e` alone, and `ever`, have none.
fn exponent(text: &str) -> Option<(i32, &str)> {
    let power = text.strip_prefix(['e', 'E'])?;
    let signed = power.strip_prefix(['+', '-']).unwrap_or(power);
    let digits = signed
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(signed.len());
    let end = power.len() - signed.len() + digits;
    Some((power[..end].parse().ok()?, &power[end..]))
}

fn add(a: Quantity, b: Quantity) -> Option<Quantity> {
    let unit = match (a.unit, b.unit) {
        (None, None) => None,
        (Some(a), Some(b)) => Some(a.min(b)),
        _ => return None,
    };
    Some(Quantity {
        billionths: a.billionths.checked_add(b.billionths)?,
        unit,
    })
}

fn scaled(number: u128, unit: u128) -> Option<Quantity> {
    Some(Quantity {
        billionths: exactly(number, unit, ONE)?,
        unit: Some(unit),
    })
}

fn exactly(a: u128, b: u128, divisor: u128) -> Option<u128> {
    let product = a.checked_mul(b)?;
    product.is_multiple_of(divisor).then_some(product / divisor)
}
