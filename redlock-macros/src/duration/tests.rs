use super::*;

fn millis(source: &str) -> u64 {
    match parse(source) {
        Ok(Duration::Known(known)) => known.millis,
        Ok(Duration::Path(_) | Duration::Computed(_)) => panic!("{source} has another value"),
        Err(error) => panic!("{source}: {error}"),
    }
}

fn parse(source: &str) -> Result<Duration> {
    Duration::parse("expire", source.parse().unwrap())
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
fn text_has_a_unit() {
    for (source, written) in [("5", "5s"), ("5s", "5s"), ("1_000ms", "1_000ms")] {
        assert!(matches!(parse(source), Ok(Duration::Known(known)) if known.text == written));
    }
}

#[test]
fn large_numbers_need_a_unit() {
    assert_eq!(millis("999"), 999_000);
    assert_mistakes(&[(
        "1_000",
        "a number without a unit counts seconds; write `1_000ms`, or `1_000s` if it is as long",
    )]);
}

#[test]
fn notations_of_other_libraries() {
    assert_mistakes(&[
        ("5.seconds()", "a duration is one token: write `5s`"),
        ("5s.into()", "a duration is one token: write `5s`"),
        ("5 as u64", "a duration is one token: write `5s`"),
        (
            "chrono::Duration::minutes(2)",
            "expected a duration; write `2m`",
        ),
        ("millis(1500)", "expected a duration; write `1500ms`"),
        ("Duration::new(5, 0)", "expected a duration; write `5s`"),
        ("\"PT1H30M\"", "expected a duration; write `90m`"),
    ]);
    for source in ["10s / 2", "5 60", "5s * 2s"] {
        let message = format!(
            "`{source}` is not worked out; write one token, such as `5s`, or the path of a constant"
        );
        assert_eq!(mistake(source), message);
    }
    let [of_run_time, placeholder] = ["Duration::new(5, 7)", "\"${lock.ttl}\""].map(mistake);
    assert!(of_run_time.contains("such as `config.lease`"));
    assert_eq!(of_run_time, placeholder);
}

#[test]
fn paths() {
    for source in [
        "LEASE",
        "config::LEASE",
        "Self::LEASE",
        "<T as Leased>::LEASE",
    ] {
        assert!(matches!(parse(source), Ok(Duration::Path(_))), "{source}");
    }
}

#[test]
fn what_an_argument_has() {
    let arguments = ["lease".to_owned(), "type".to_owned()];
    for source in [
        "lease",
        "r#type",
        "self.lease",
        "config.timeouts().lease",
        "*self.lease",
        "*lease",
        "lease.0",
        "LEASE.mul_f64(2.)",
        "settings().lease",
        "self.of[0].lease(1, 2)",
    ] {
        let duration = parse(source).unwrap();
        assert!(duration.computed(&arguments).is_some(), "{source}");
        assert!(duration.constant(&arguments).is_none(), "{source}");
    }
    for source in ["LEASE", "lease::lease", "Self::lease"] {
        let duration = parse(source).unwrap();
        assert!(duration.computed(&arguments).is_none(), "{source}");
        assert!(duration.constant(&arguments).is_some(), "{source}");
    }
    let awaited = "a duration cannot be awaited; make it an argument, or await it in the caller";
    for source in ["self.lease().await.0", "self.lease(id().await)"] {
        assert_eq!(mistake(source), awaited, "{source}");
    }
}

#[track_caller]
fn assert_mistakes(cases: &[(&str, &str)]) {
    for (source, message) in cases {
        assert_eq!(mistake(source), *message, "{source}");
    }
}

#[test]
fn fractions() {
    assert_eq!(millis("0.5s"), 500);
    assert_eq!(millis("1.5h"), 5_400_000);
    assert_eq!(millis("0.0001m"), 6);
    assert_eq!(millis("1.000ms"), 1);
    assert_mistakes(&[
        ("1.5", "a fraction needs a unit; write `1.5s`"),
        ("1_0.5", "a fraction needs a unit; write `10.5s`"),
        (
            "1.5ms",
            "`1.5ms` is not a whole number of milliseconds; write `1ms` or `2ms`",
        ),
        (
            "0.3ms",
            "`0.3ms` is not a whole number of milliseconds; write `1ms`",
        ),
    ]);
}

#[test]
fn limits() {
    assert_eq!(millis("18446744073709551615ms"), u64::MAX);
    for source in [
        "18446744073709551616ms".to_owned(),
        format!("{}h", "9".repeat(50)),
    ] {
        let message = format!("`{source}` is too long for a duration");
        assert_eq!(mistake(&source), message);
    }
}

#[test]
fn unknown_units() {
    let no_unit = |unit: &str| format!("no unit `{unit}`; the units are `ms`, `s`, `m` and `h`");
    for (source, unit, write) in [
        ("5sec", "sec", "5s"),
        ("5S", "S", "5s"),
        ("5u64", "u64", "5s"),
        ("5min", "min", "5m"),
        ("5millis", "millis", "5ms"),
        ("5hours", "hours", "5h"),
        ("2d", "d", "48h"),
        ("1w", "w", "168h"),
        ("7us", "us", "1ms"),
        ("7000us", "us", "7ms"),
        ("1.5sec", "sec", "1.5s"),
        ("1.5days", "days", "36h"),
        ("0x5min", "min", "5m"),
    ] {
        let problem = match source.starts_with("0x") {
            true => "a duration is a decimal number;".to_owned(),
            false => no_unit(unit) + ":",
        };
        assert_eq!(mistake(source), format!("{problem} write `{write}`"));
    }
    for (source, unit) in [
        ("5parsecs", "parsecs"),
        ("5mo", "mo"),
        ("2fortnights", "fortnights"),
    ] {
        assert_eq!(mistake(source), no_unit(unit));
    }
}

/// As rustc hands them on after it has reported them; `proc_macro2` does not lex them.
#[test]
fn units_that_begin_like_an_exponent() {
    for text in ["5e", "1E", "5ever", "1e+", "1e_"] {
        let message = not_a_duration(text);
        assert!(message.starts_with("no unit `"), "{text}: {message}");
    }
    assert_eq!(mistake("\"10 eons\""), "expected a duration, such as `5s`");
}

#[test]
fn other_notations() {
    assert_mistakes(&[
        ("1e3", "a duration has no exponent; write `1000s`"),
        ("1e3ms", "a duration has no exponent; write `1000ms`"),
        ("15e-1s", "a duration has no exponent; write `1.5s`"),
        ("1e99", "a duration has no exponent"),
        ("0x5d", "a duration is a decimal number; write `93s`"),
        ("0b11", "a duration is a decimal number; write `3s`"),
        ("0xfms", "a duration is a decimal number; write `15ms`"),
        ("-5s", "a duration cannot be negative; write `5s`"),
        ("-1.5", "a duration cannot be negative; write `1.5s`"),
        ("-.5s", "a duration cannot be negative; write `0.5s`"),
        ("-x", "a duration cannot be negative"),
    ]);
}

#[test]
fn several_tokens() {
    for (source, write) in [
        ("5 s", "5s"),
        ("7.s", "7s"),
        ("7 min", "7m"),
        (".5s", "0.5s"),
        (".5", "0.5s"),
        ("5 * 60", "300s"),
        ("5 * 1m", "5m"),
        ("2 * 3 * 500ms", "3000ms"),
        ("5s + 1s", "6s"),
        ("1m 30s", "90s"),
        ("1h + 30 min", "90m"),
        ("(5 * 60)", "300s"),
        ("+5s", "5s"),
    ] {
        assert_eq!(
            mistake(source).replace(';', ":"),
            format!("a duration is one token: write `{write}`")
        );
    }
    let compound = |text: &str| format!("a duration is one number with one unit, not `{text}`");
    for (source, write) in [("1m30s", "90s"), ("1h30m", "90m"), ("1s500ms", "1500ms")] {
        let message = format!("{}: write `{write}`", compound(source));
        assert_eq!(mistake(source), message);
    }
    assert_eq!(mistake("1m30"), compound("1m30"));
}

#[test]
fn what_is_around_a_duration() {
    assert_mistakes(&[
        ("(5s)", "write `5s` without the parentheses"),
        ("{5s}", "write `5s` without the braces"),
        (
            "(config::LEASE)",
            "write `config::LEASE` without the parentheses",
        ),
        ("&LEASE", "write `LEASE` without the `&`"),
        ("&self.lease", "write `self.lease` without the `&`"),
        ("(self.lease)", "write `self.lease` without the parentheses"),
    ]);
}

#[test]
fn other_values() {
    assert_mistakes(&[
        (
            "\"7s\"",
            "expected a duration; write `7s` without the quotes",
        ),
        (
            "\"7 s\"",
            "expected a duration; write `7s` without the quotes",
        ),
        ("\"1m30s\"", "expected a duration; write `90s`"),
        ("\"soon\"", "expected a duration, such as `5s`"),
        ("'5'", "expected a duration; write `5s` without the quotes"),
        ("Duration::from_secs(7)", "expected a duration; write `7s`"),
        (
            "Duration::from_secs(5 * 60)",
            "expected a duration; write `300s`",
        ),
        (
            "Duration::from_secs_f32(0.5)",
            "expected a duration; write `0.5s`",
        ),
        (
            "time::Duration::from_millis(7)",
            "expected a duration; write `7ms`",
        ),
    ]);
    let other = "`expire` takes a literal such as `5s`, the path of a constant, or an argument with its \
                 fields and methods, such as `config.lease`";
    for source in [
        "Duration::from_secs(n)",
        "lease()",
        "LEASE * 2",
        "self.lease()?",
    ] {
        assert_eq!(mistake(source), other, "{source}");
    }
}

/// A remedy is a duration, and stays what it is.
#[allow(
    dead_code,
    reason = "for `fuzz`, which not everything that includes this file has"
)]
pub(crate) fn assert_remedy_is_accepted(text: &str) {
    let message = if text.starts_with(|first: char| first.is_ascii_digit()) {
        to_millis(text).map_or_else(|| not_a_duration(text), |_| String::new())
    } else {
        not_a_number("expire", text)
    };
    let Some((_, written)) = message.split_once("write `") else {
        return;
    };
    let written = written.split('`').next().unwrap();
    assert!(to_millis(written).is_some(), "{text}: {message}");
    assert_eq!(remedy(written), Some(format!("`{written}`")), "{text}");
}
