//! Durations as configuration files have them: `500ms`, `30s`, `1.5m`, `1h`.

use std::time::Duration;

use redlock_runtime::__tool::parse_duration;

pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong =
        "write one number with one unit, in whole milliseconds, such as 500ms, 30s, 1.5m or 1h";
    parse_duration(text).ok_or_else(|| wrong.to_owned())
}
