//! Durations as the attribute and configuration files write them: `500ms`, `30s`, `5m`, `1h`.

use std::time::Duration;

pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || "write a number and its unit: 500ms, 30s, 5m, 1h".to_owned();
    let unit =
        text.trim_start_matches(|character: char| character.is_ascii_digit() || character == '.');
    let number: f64 = text[..text.len() - unit.len()]
        .parse()
        .map_err(|_| wrong())?;
    let seconds = match unit {
        "ms" => number / 1_000.0,
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3_600.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| "the duration is too long".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_number_with_a_unit() {
        for (text, millis) in [
            ("500ms", 500),
            ("0s", 0),
            ("1.5s", 1_500),
            ("5m", 300_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "5",
            "s",
            "-1s",
            "1d",
            "1 s",
            "1e9s",
            "99999999999999999999h",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
