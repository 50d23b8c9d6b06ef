use super::*;

fn parse(source: &str) -> Result<Duration> {
    super::parse(
        "expire",
        source.parse().unwrap(),
        &["lease".to_owned(), "type".to_owned()],
    )
}

fn millis(source: &str) -> u64 {
    match parse(source) {
        Ok(Given::Known(known)) => known.millis,
        Ok(Given::Constant(_) | Given::Computed(_)) => panic!("{source} has another value"),
        Err(error) => panic!("{source}: {error}"),
    }
}

fn mistake(source: &str) -> String {
    match parse(source) {
        Ok(_) => panic!("{source} is accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn units() {
    for (source, expected) in [
        ("500ms", 500),
        ("5s", 5_000),
        ("2m", 120_000),
        ("1h", 3_600_000),
        ("60", 60_000),
        ("1_000ms", 1_000),
        ("0s", 0),
        ("0.5s", 500),
        ("1.5h", 5_400_000),
        ("0.0001m", 6),
        ("1.000ms", 1),
        ("18446744073709551615ms", u64::MAX),
    ] {
        assert_eq!(millis(source), expected, "{source}");
    }
}

#[test]
fn text_has_a_unit() {
    for (source, written) in [("5", "5s"), ("5s", "5s"), ("1_000ms", "1_000ms")] {
        assert!(matches!(parse(source), Ok(Given::Known(known)) if known.text == written));
    }
}

#[test]
fn what_an_argument_has() {
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
        assert!(matches!(parse(source), Ok(Given::Computed(_))), "{source}");
    }
    for source in [
        "LEASE",
        "lease::lease",
        "Self::lease",
        "<T as Leased>::LEASE",
    ] {
        assert!(matches!(parse(source), Ok(Given::Constant(_))), "{source}");
    }
    let awaited = "this value cannot be awaited; make it an argument, or await it in the caller";
    for source in ["self.lease().await.0", "self.lease(id().await)"] {
        assert_eq!(mistake(source), awaited, "{source}");
    }
}

#[test]
fn numbers_that_are_no_duration() {
    let no_duration = |text: &str| {
        format!("`{text}` is not a duration, which is one decimal number and `ms`, `s`, `m` or `h`")
    };
    for source in [
        "5sec", "5S", "5parsecs", "1.5", "2d", "7us", "5u64", "1m30s", "1e3", "0x5d", "0b11min",
    ] {
        assert_eq!(mistake(source), no_duration(source));
    }
    for source in ["1.5ms", "18446744073709551616ms"] {
        let message = format!("`{source}` is not a whole number of milliseconds, or too long");
        assert_eq!(mistake(source), message);
    }
    for source in ["61", "500", "1_000"] {
        let message = format!("this number needs a unit; write `{source}ms` or `{source}s`");
        assert_eq!(mistake(source), message);
    }
}

#[test]
fn other_values() {
    let other = "`expire` takes a literal such as `5s`, the path of a constant, or an argument with its \
                 fields and methods";
    for source in [
        "Duration::from_secs(7)",
        "lease()",
        "LEASE * 2",
        "5 * 60",
        "5 s",
        "-5s",
        "(5s)",
        "5.seconds()",
        "&LEASE",
        "*LEASE",
        "self.lease()?",
        "Some(5s)",
        "1.s",
        ".5s",
        "\"7s\"",
        "true",
    ] {
        assert_eq!(mistake(source), other, "{source}");
    }
    let of = |name, source: &str| {
        super::parse(name, source.parse().unwrap(), &[])
            .err()
            .unwrap()
    };
    assert!(
        of("wait", "-1")
            .to_string()
            .ends_with("; for no limit, `std::time::Duration::MAX`")
    );
    assert!(
        of("max_hold", "\"none\"")
            .to_string()
            .ends_with("; leave it out for no limit")
    );
    assert!(
        of("renew", "false")
            .to_string()
            .contains("alone, it renews after every third of `expire`")
    );
}
