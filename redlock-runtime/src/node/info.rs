//! What a server tells of itself by `INFO`.

use std::sync::Arc;

use redis::{InfoDict, Value};

/// A `run_id` has 40 characters; servers that only speak like Redis may have other names.
pub(super) const LONGEST_RUN_ID: usize = 128;

/// `None` if it is no such answer.
pub(super) fn info(answer: &Value) -> Option<InfoDict> {
    match answer {
        Value::BulkString(_) | Value::SimpleString(_) | Value::VerbatimString { .. } => {
            redis::from_redis_value_ref(answer).ok()
        }
        _ => None,
    }
}

/// The server's process. What cannot be a process's name is not known.
pub(super) fn run_id(server: &InfoDict) -> Option<Arc<str>> {
    let name: String = server.get("run_id")?;
    let is_name = (1..=LONGEST_RUN_ID).contains(&name.len());
    is_name.then(|| name.into())
}
