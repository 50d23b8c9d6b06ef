//! Durations as they stand in configuration files and in the arguments of the program `redlock`.

use std::time::Duration;

/// Reads a whole number of milliseconds. As the attribute does, but for numbers without a unit: what counts seconds in
/// one library counts milliseconds in another.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let is_number = |character: char| character.is_ascii_digit() || character == '.';
    let (number, unit) = text.split_at(text.find(|character| !is_number(character))?);
    let unit: u128 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let one = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let scaled = digits.checked_mul(unit)?;
    if whole.is_empty() || !scaled.is_multiple_of(one) {
        return None;
    }
    u64::try_from(scaled / one).ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_in_the_attribute_and_have_a_unit() {
        for (text, millis) in [
            ("500ms", Some(500)),
            ("5s", Some(5_000)),
            ("1.5m", Some(90_000)),
            ("0.25h", Some(900_000)),
            ("0s", Some(0)),
            ("18446744073709551615ms", Some(u64::MAX)),
            ("18446744073709551616ms", None),
            ("5", None),
            ("s", None),
            (".5s", None),
            ("1.2.3s", None),
            ("0.5ms", None),
            ("5 s", None),
            ("-5s", None),
            ("5sec", None),
            ("", None),
        ] {
            assert_eq!(
                parse_duration(text),
                millis.map(Duration::from_millis),
                "{text}"
            );
        }
        let digits = format!("{}s", "9".repeat(100));
        assert_eq!(parse_duration(&digits), None);
    }
}
