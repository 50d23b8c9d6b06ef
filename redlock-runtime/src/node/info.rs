//! What a server tells of itself by `INFO`.

use std::sync::Arc;

use redis::{InfoDict, Value};

/// A `run_id` has 40 characters; servers that only speak like Redis may have other names.
pub(super) const LONGEST_RUN_ID: usize = 128;

/// The server's process from the answer to `INFO server`, if that tells it; `None` if it is no such
/// answer.
pub(super) fn run_id(answer: &Value) -> Option<Option<Arc<str>>> {
    let info = match answer {
        Value::BulkString(_) | Value::SimpleString(_) | Value::VerbatimString { .. } => {
            redis::from_redis_value_ref(answer).ok()?
        }
        _ => return None,
    };
    Some(field(&Some(info), "run_id").and_then(name))
}

/// What cannot be a process's name is not known.
pub(super) fn name(run_id: String) -> Option<Arc<str>> {
    (1..=LONGEST_RUN_ID)
        .contains(&run_id.len())
        .then(|| run_id.into())
}

pub(super) fn field(info: &Option<InfoDict>, name: &str) -> Option<String> {
    info.as_ref()?.get(name)
}
