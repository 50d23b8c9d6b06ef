//! What a server's answer means.

use std::{fmt, time::Duration};

use redis::{ServerError, Value};

use super::connection;
use crate::{
    protocol::{Fault, Reply, Request, Token},
    script,
};

/// Reads one server's answer to one request. Whatever is not an answer that the script can give
/// is a fault, never a vote.
pub(super) fn parse(request: &Request, answer: Value) -> Reply {
    match (request, answer) {
        (Request::Identify, answer) => Reply::Identity {
            server: connection::run_id(answer),
        },
        (request, Value::ServerError(error)) => refused(request, &error),
        (Request::Admit { .. }, Value::Okay) => Reply::Admitted,
        (Request::Admit { .. }, Value::Int(0)) => Reply::Served,
        (Request::Admit { .. }, Value::Array(values)) => match values[..] {
            [Value::Int(millis @ 1..)] => Reply::Quarantined {
                remaining: Duration::from_millis(millis.unsigned_abs()),
            },
            _ => garbled(&values),
        },
        (Request::Top, Value::Int(counter @ 0..)) => Reply::Top {
            counter: Token(counter.unsigned_abs()),
        },
        (Request::Acquire { .. } | Request::Extend { .. }, Value::Int(-3)) => Reply::NotAdmitted,
        (Request::Acquire { proposal, .. }, answer) => granted_or_held(*proposal, answer),
        (Request::Watch { owner, .. }, Value::BulkString(value)) => match script::owner(&value) {
            Some(holder) if *owner == Some(holder) => Reply::Ours,
            holder => Reply::Taken { owner: holder },
        },
        (Request::Watch { .. }, Value::Nil) => Reply::Free,
        (Request::Confirm { .. }, Value::Int(1)) => Reply::Confirmed,
        (Request::Extend { .. }, Value::Array(values)) => match values[..] {
            [Value::Int(millis @ -1..)] => Reply::Extended {
                remaining: u64::try_from(millis).ok().map(Duration::from_millis),
            },
            _ => garbled(&values),
        },
        (Request::Release { .. }, Value::Int(1)) => Reply::Deleted,
        (
            Request::Confirm { .. } | Request::Extend { .. } | Request::Release { .. },
            Value::Int(0),
        ) => Reply::NotOwner,
        (_, other) => garbled(&other),
    }
}

fn refused(request: &Request, error: &ServerError) -> Reply {
    match (error.code(), request) {
        ("NOSCRIPT", _) => Reply::NoScript,
        // Something else stands under the key now, so it is not ours.
        ("WRONGTYPE", Request::Watch { .. }) => Reply::Taken { owner: None },
        (
            "WRONGTYPE",
            Request::Confirm { .. } | Request::Extend { .. } | Request::Release { .. },
        ) => Reply::NotOwner,
        (code, _) => {
            let detail = error.details().unwrap_or_default();
            Reply::Failed(Fault::Refused(format!("{code} {detail}").trim_end().into()))
        }
    }
}

/// What `acquire.lua` says of an admitted process.
fn granted_or_held(proposal: Token, answer: Value) -> Reply {
    let values = match answer {
        Value::Int(1) => {
            return Reply::Granted {
                counter: proposal,
                was_ours: false,
                awaited: false,
            };
        }
        Value::Array(values) => values,
        other => return garbled(&other),
    };
    match values[..] {
        [Value::Int(-1)] => Reply::Held { remaining: None },
        [Value::Int(millis @ 0..)] => Reply::Held {
            remaining: Some(Duration::from_millis(millis.unsigned_abs())),
        },
        [
            Value::Int(counter @ 1..),
            Value::Int(was_ours @ 0..=1),
            Value::Int(awaited @ 0..=1),
        ] => Reply::Granted {
            counter: Token(counter.unsigned_abs()),
            was_ours: was_ours == 1,
            awaited: awaited == 1,
        },
        _ => garbled(&values),
    }
}

fn garbled(answer: &impl fmt::Debug) -> Reply {
    Reply::Failed(Fault::Garbled(shorten(&format!("{answer:?}")).into()))
}

/// A server that lies may lie at length.
fn shorten(text: &str) -> String {
    const LONGEST: usize = 80;
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::protocol::Owner;

    fn acquire() -> Request {
        Request::Acquire {
            key: Arc::from("k"),
            owner: Owner(1),
            ttl: Duration::from_secs(1),
            proposal: Token(1),
            handed_over: None,
            waits: false,
        }
    }

    fn release() -> Request {
        Request::Release {
            key: Arc::from("k"),
            owner: Owner(1),
            catch_up: Token(1),
        }
    }

    fn error(line: &str) -> Value {
        redis::parse_redis_value(line.as_bytes()).unwrap()
    }

    #[test]
    fn what_no_script_can_answer_is_no_vote() {
        for lie in [
            Value::Int(-2),
            Value::Int(0),
            Value::Int(2),
            Value::Nil,
            Value::Boolean(true),
            Value::Okay,
            Value::SimpleString("QUEUED".into()),
            Value::Array(vec![Value::Int(-2)]),
            Value::Array(vec![Value::Int(1), Value::Int(1)]),
            Value::Array(vec![Value::Int(1), Value::Int(1), Value::Int(2)]),
            Value::Array(vec![Value::Okay; 1_000]),
        ] {
            let reply = parse(&acquire(), lie.clone());
            assert!(
                matches!(reply, Reply::Failed(Fault::Garbled(_))),
                "{lie:?} was read as {reply:?}"
            );
        }
        assert!(matches!(
            parse(&release(), Value::Okay),
            Reply::Failed(Fault::Garbled(_))
        ));
    }

    #[test]
    fn errors_keep_the_servers_words() {
        assert_eq!(
            parse(
                &acquire(),
                error("-READONLY You can't write against a read only replica.\r\n")
            ),
            Reply::Failed(Fault::Refused(
                "READONLY You can't write against a read only replica.".into()
            ))
        );
        assert_eq!(
            parse(&acquire(), error("-NOSCRIPT No matching script.\r\n")),
            Reply::NoScript
        );
        assert_eq!(
            parse(&release(), error("-WRONGTYPE Operation against a key\r\n")),
            Reply::NotOwner
        );
    }
}
