//! What servers reply, as far as this program asks.

use std::collections::BTreeMap;

use redlock_runtime::{
    __tool::{ServerError, Value, from_redis_value, rejection},
    Rejection,
};

pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Of what was asked, that to which the server replies with an error, and the error.
pub(crate) fn refused<'a, T>(
    asked: &'a [T],
    replies: &[Value],
) -> impl Iterator<Item = (&'a T, ServerError)> {
    let refused = |(asked, reply): (&'a T, &Value)| match reply {
        Value::ServerError(error) => Some((asked, error.clone())),
        _ => None,
    };
    asked.iter().zip(replies).filter_map(refused)
}

/// Whether this error of a server is about what the user may do.
pub(crate) fn is_about_rights(error: &ServerError) -> bool {
    matches!(
        rejection(error),
        Rejection::NoPermission | Rejection::UnknownCommand
    )
}

/// Names and values, as of HGETALL and CONFIG GET.
pub(crate) fn map(value: &Value) -> BTreeMap<String, String> {
    from_redis_value(value.clone()).unwrap_or_default()
}

/// The fields of INFO.
pub(crate) fn info(value: &Value) -> BTreeMap<String, String> {
    let text: String = from_redis_value(value.clone()).unwrap_or_default();
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    fields.map(owned).collect()
}

/// Milliseconds since 1970 from the reply to TIME.
pub(crate) fn millis(value: &Value) -> Option<i64> {
    let [seconds, micros]: [i64; 2] = from_redis_value(value.clone()).ok()?;
    seconds.checked_mul(1_000)?.checked_add(micros / 1_000)
}
