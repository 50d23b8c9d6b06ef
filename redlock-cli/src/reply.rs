//! What servers reply, as far as this program asks.

use std::{collections::BTreeMap, time::Duration};

use redlock_runtime::{
    __tool::{ServerError, Value, from_redis_value, rejection},
    Rejection,
};

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

/// The time since 1970 from the reply to TIME.
pub(crate) fn time(value: &Value) -> Option<Duration> {
    let (seconds, micros) = from_redis_value(value.clone()).ok()?;
    Some(Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros)))
}
